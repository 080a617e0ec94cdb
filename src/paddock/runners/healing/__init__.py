"""Healing: one module a worker. Each compares ledgers, proves a disagreement, and undoes it in the safe order."""
