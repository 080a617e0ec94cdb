"""Runner Pods: how they are named and built, what one can tell from looking at one, and how many more may start."""
