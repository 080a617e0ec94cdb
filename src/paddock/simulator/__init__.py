"""A world to test in: virtual time, seeded schedules, faults, processes that die, and simulators of the outside.

Everything here is driven by one seed. The same seed gives the same run, step by step; a failing run prints its seed.
"""
