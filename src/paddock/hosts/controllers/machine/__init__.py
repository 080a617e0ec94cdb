"""The machine controller: one module a stage of a machine's life, run in the order of `reconcile`."""
