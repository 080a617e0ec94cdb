"""Refusals are logged, and a flood of them is a few lines."""

import asyncio
from typing import Any

from paddock.base.refusal_log import RefusalLog


class Lines:
    def __init__(self) -> None:
        self.said: list[dict[str, Any]] = []

    def warning(self, event: str, **fields: Any) -> None:
        self.said.append({"event": event, **fields})


async def test_the_first_of_a_kind_is_said_at_once_and_a_flood_is_counted() -> None:
    lines = Lines()
    refusals = RefusalLog(lines, every=0.05)
    for _ in range(1000):
        refusals.refused("webhook", "bad signature", sender="192.0.2.7")
    refusals.refused("dispatch", "expired")
    assert [(line["what"], line.get("times")) for line in lines.said] == [("webhook", None), ("dispatch", None)]
    await asyncio.sleep(0.06)
    refusals.refused("webhook", "bad signature", sender="192.0.2.8")
    assert lines.said[-1] == {
        "event": "refused",
        "what": "webhook",
        "why": "bad signature",
        "sender": "192.0.2.8",
        "times": 1000,
    }


async def test_what_strangers_wrote_is_short_and_harmless_and_memory_is_bounded() -> None:
    lines = Lines()
    refusals = RefusalLog(lines)
    refusals.refused("page", "unknown host", host="evil\x1b[2J" + "x" * 10_000)
    assert "\x1b" not in lines.said[0]["host"]
    assert len(lines.said[0]["host"]) <= 200
    for number in range(2000):
        refusals.refused("page", str(number))
    assert len(refusals._kinds) <= 256
