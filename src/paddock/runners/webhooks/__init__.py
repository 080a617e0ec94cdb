"""What GitHub announces about jobs and installations: stored by the webhook, told to the ledger here."""

from paddock.runners.webhooks.events import Handled
from paddock.runners.webhooks.routing import Chosen, Ignored, choose, offered
from paddock.runners.webhooks.worker import WebhookWorker

__all__ = ["Chosen", "Handled", "Ignored", "WebhookWorker", "choose", "offered"]
