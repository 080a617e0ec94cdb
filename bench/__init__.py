"""Benchmarks: `python -m bench [names…]`. Ratios within one run are the findings; absolute numbers belong to a machine."""
