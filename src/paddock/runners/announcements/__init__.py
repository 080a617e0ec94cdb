"""What GitHub announces about jobs and installations: stored by the webhook, told to the ledger here."""

from paddock.runners.announcements.handling import Announcements
from paddock.runners.announcements.routing import Chosen, Ignored, choose, offered
from paddock.runners.announcements.telling import Told

__all__ = ["Announcements", "Chosen", "Ignored", "Told", "choose", "offered"]
