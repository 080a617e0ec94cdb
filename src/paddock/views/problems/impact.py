"""How much a problem hurts: jobs before Macs, Macs before money, money before housekeeping."""

from typing import Final

KILLED: Final = 100
NO_SERVICE: Final = 95
LOST: Final = 92
JOBS_WAIT: Final = 90
UNSERVED: Final = 85
POOL: Final = 80
TOLD: Final = 75
FAILED: Final = 70
NOT_READY: Final = 60
ORPHANED: Final = 50
SHORT: Final = 45
POD: Final = 40
ASIDE: Final = 10
"""What a person set aside on purpose: listed, and no reason for alarm."""
