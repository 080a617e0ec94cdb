"""Paddock runs Apple-silicon CI fleets: every host, claim, Pod and job is accounted for."""

__version__ = "0.1.0"
