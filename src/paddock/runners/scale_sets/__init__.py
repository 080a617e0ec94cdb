"""Jobs that GitHub announces in the queue of a runner scale set. See docs/design/scale-sets.md."""
