"""One pass of a worker, counted: what was healed, only reported, put off by the cap, refused, or failed."""

from collections.abc import Iterator
from contextlib import contextmanager

from paddock.clients.github import Conflict, GitHubError, RateLimited
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.worker import Healed, Report
from paddock.runners.ledger import LedgerError, LedgerUnavailableError

__all__ = ["PassReport"]


class PassReport:
    """Ask `may` before every effect, say `done` after it, and do each item inside `item`."""

    def __init__(self, settings: HealingSettings) -> None:
        self._report_only = settings.report_only
        self._left = settings.cap
        self._healed: list[Healed] = []
        self._reported: list[Healed] = []
        self._refused: list[str] = []
        self._failed: list[str] = []
        self._deferred = 0
        self.looked = 0
        self.stopped = False
        """The ledger went away in the middle: what is left waits for the next pass."""

    def may(self, heal: Healed) -> bool:
        """Whether this proven heal may be done now; where not, it is counted as reported or put off."""
        if self.only_reports(heal.kind):
            self._reported.append(heal)
            return False
        if self._left <= 0:
            self._deferred += 1
            return False
        self._left -= 1
        return True

    def only_reports(self, kind: str) -> bool:
        """Whether heals of this kind are proven for people to read, and never done."""
        return kind in self._report_only or "*" in self._report_only

    def done(self, heal: Healed) -> None:
        self._healed.append(heal)

    def moved_on(self, heal: Healed) -> None:
        """The write found that what was read is not so any more, and changed nothing."""
        self.nothing()
        self._refused.append(f"{heal.subject} moved on while it was looked at: left alone")

    def nothing(self) -> None:
        """What `may` allowed turned out to be no heal: its place under the cap is free again."""
        self._left += 1

    def refuse(self, sentence: str) -> None:
        if sentence not in self._refused:
            self._refused.append(sentence)

    def fail(self, sentence: str) -> None:
        self._failed.append(sentence)

    @contextmanager
    def item(self, subject: str) -> Iterator[None]:
        """One item: whatever goes wrong with it is a sentence in the report, and the pass goes on.

        A pass never raises once it may have changed something: then its heals would be done and nowhere written down.
        """
        try:
            yield
        except RateLimited as error:
            self.refuse(f"{subject}: {error.message}")
        except Conflict as error:
            self.refuse(f"{subject}: GitHub refuses: {error.message}")
        except LedgerUnavailableError as error:
            self.stopped = True
            self.fail(f"{subject}: {error}; the rest waits for the next pass")
        except (GitHubError, LedgerError) as error:
            self.fail(f"{subject}: {error}")
        except Exception as error:  # noqa: BLE001 - a mistake of ours with one item must not keep the others from healing
            self.fail(f"{subject}: {type(error).__name__}: {error}")

    def report(self) -> Report:
        return Report(
            looked=self.looked,
            healed=tuple(self._healed),
            reported=tuple(self._reported),
            deferred=self._deferred,
            refused=tuple(self._refused),
            failed=tuple(self._failed),
        )
