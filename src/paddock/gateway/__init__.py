"""What Macs talk to: it checks what a Mac says, and writes Node, Lease and Pod status in its place."""
