"""GitHub: the contract (`GitHub`), the client that keeps it, its values and its errors."""

from paddock.clients.github.app_auth import APP
from paddock.clients.github.client import GitHubClient
from paddock.clients.github.contract import (
    BudgetView,
    GitHub,
    GitHubJob,
    GitHubRepository,
    GitHubRunner,
    HookDelivery,
    Installation,
    JobStatus,
    MintedRunner,
    Priority,
    RunnerPlace,
    RunnerScope,
)
from paddock.clients.github.errors import (
    BudgetSpent,
    Conflict,
    Forbidden,
    GitHubError,
    GroupRefused,
    IncompleteList,
    Invalid,
    NotFound,
    RateLimited,
    SettingsError,
    Unauthenticated,
    Unavailable,
)
from paddock.clients.github.scaleset import (
    QueueMessage,
    QueueSession,
    ScaleSet,
    ScaleSets,
    ScaleSetStatistics,
)
from paddock.clients.github.settings import DEFAULT_API_URL, GitHubSettings
from paddock.clients.github.signature import verify

__all__ = [
    "APP",
    "DEFAULT_API_URL",
    "BudgetSpent",
    "BudgetView",
    "Conflict",
    "Forbidden",
    "GitHub",
    "GitHubClient",
    "GitHubError",
    "GitHubJob",
    "GitHubRepository",
    "GitHubRunner",
    "GitHubSettings",
    "GroupRefused",
    "HookDelivery",
    "IncompleteList",
    "Installation",
    "Invalid",
    "JobStatus",
    "MintedRunner",
    "NotFound",
    "Priority",
    "QueueMessage",
    "QueueSession",
    "RateLimited",
    "RunnerPlace",
    "RunnerScope",
    "ScaleSet",
    "ScaleSetStatistics",
    "ScaleSets",
    "SettingsError",
    "Unauthenticated",
    "Unavailable",
    "verify",
]
