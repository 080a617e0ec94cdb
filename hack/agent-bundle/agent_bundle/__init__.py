"""Builds and checks the node agent's bundle: one relocatable, reproducible tarball with interpreter, wheels and our modules."""
