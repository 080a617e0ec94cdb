"""The pages people look at: rendered on the server, live by server-sent events, nothing fetched from outside."""
