"""The steps of a job: its progress as far as GitHub knows it."""

from datetime import datetime

from paddock.simulator.github.state import Conclusion, Step

__all__ = ["advance", "close", "steps_for"]


def steps_for(name: str) -> list[Step]:
    names = ("Set up job", "Run actions/checkout@v4", f"Run {name}", "Post Run actions/checkout@v4", "Complete job")
    return [Step(name=step, number=number) for number, step in enumerate(names, 1)]


def advance(steps: list[Step], now: datetime) -> None:
    """The step under way is over, and the next one begins."""
    for step in steps:
        if step.completed_at is None:
            step.started_at = step.started_at or now
            step.completed_at, step.conclusion = now, "success"
            for following in steps[step.number : step.number + 1]:
                following.started_at = now
            return


def close(steps: list[Step], conclusion: Conclusion, now: datetime) -> None:
    """The job is over: so is the step under way; those that never began stay that way."""
    for step in steps:
        if step.completed_at is None and step.started_at is not None:
            step.completed_at, step.conclusion = now, conclusion
