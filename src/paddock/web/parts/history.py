"""The fleet over time: the card that the charts are drawn into, and the way to any moment of the past."""

from datetime import datetime, timedelta

import htpy as h
from htpy import Node

from paddock.base.clock import rfc3339
from paddock.runners.http.history import WINDOWS
from paddock.web.assets import asset
from paddock.web.links import command

__all__ = ["history_card"]


def history_card(now: datetime) -> Node:
    """Empty and of the right height until the script draws, so that nothing below it jumps."""
    return h.section(
        "#history.card",
        aria_labelledby="history-title",
        data_uplot=asset("uplot.js"),
        data_uplot_css=asset("uplot.css"),
    )[
        h.div(".history-head")[
            h.h2("#history-title", tabindex="-1")["History"],
            h.div(".windows", role="group", aria_label="How far back")[
                [
                    h.button(
                        ".window", type="button", data_window=name, aria_pressed="true" if name == "1h" else "false"
                    )[name.replace("h", " h").replace("d", " d")]
                    for name in WINDOWS
                ]
            ],
            h.a(".alone", href=f"/rewind?at={rfc3339(now - timedelta(minutes=5))}")["Rewind the page"],
        ],
        h.p(".history-said.quiet", aria_live="off"),
        h.div(".charts")[
            h.noscript[
                "The charts need script. The same numbers: ", command("paddock rewind 20m"), ", and /api/v1/history."
            ]
        ],
        h.details(".marks", hidden=True)[h.summary["Marked on the charts"], h.ol],
    ]
