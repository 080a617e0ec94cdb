"""The gateway as a Mac knows it: the messages of both sides, and the Mac's side of each request."""
