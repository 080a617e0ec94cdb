"""What is wrong, a module a kind: each looks at what it is given and yields what a person must know. Pure."""
