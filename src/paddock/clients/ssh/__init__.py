"""SSH: the contract (`Ssh`, `Shell`), the client that keeps it, the budget of dials, keys and errors."""

from paddock.clients.ssh.client import AsyncSsh, Dial, SshLimits
from paddock.clients.ssh.contract import Completed, Shell, Ssh, Target, Upload
from paddock.clients.ssh.dialing import BudgetedSsh, DialBudget, DialRules
from paddock.clients.ssh.errors import (
    AuthRefused,
    CommandFailed,
    CommandTimedOut,
    ConnectionLost,
    Hanging,
    HostKeyChanged,
    HostKeyUnpinned,
    KeyUnusable,
    Refused,
    SshError,
    TimedOut,
    Unreachable,
)
from paddock.clients.ssh.keys import KeyPair, fingerprint, new_key_pair, public_key_of
from paddock.clients.ssh.redaction import Redactor

__all__ = [
    "AsyncSsh",
    "AuthRefused",
    "BudgetedSsh",
    "CommandFailed",
    "CommandTimedOut",
    "Completed",
    "ConnectionLost",
    "Dial",
    "DialBudget",
    "DialRules",
    "Hanging",
    "HostKeyChanged",
    "HostKeyUnpinned",
    "KeyPair",
    "KeyUnusable",
    "Redactor",
    "Refused",
    "Shell",
    "Ssh",
    "SshError",
    "SshLimits",
    "Target",
    "TimedOut",
    "Unreachable",
    "Upload",
    "fingerprint",
    "new_key_pair",
    "public_key_of",
]
