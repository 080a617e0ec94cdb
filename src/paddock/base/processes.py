"""Processes of this machine."""

import os

__all__ = ["process_exists"]


def process_exists(pid: int) -> bool:
    """Whether a process of that number exists, whoever owns it. Says nothing about whether it is the one that was meant."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
