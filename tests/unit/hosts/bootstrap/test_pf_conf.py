"""The edit of /etc/pf.conf, run by a real shell over files as earlier versions left them."""

import subprocess
from pathlib import Path

import pytest

import paddock.hosts.bootstrap.scripts as home

FRAGMENT = (Path(home.__file__).parent / "pf_conf.sh").read_text()
APPLE = """\
#
# com.apple anchor point
#
scrub-anchor "com.apple/*"
nat-anchor "com.apple/*"
rdr-anchor "com.apple/*"
dummynet-anchor "com.apple/*"
anchor "com.apple/*"
load anchor "com.apple" from "/etc/pf.anchors/com.apple"
"""
OURS = """\
# BEGIN tuist.runners
anchor "tuist.runners"
load anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"
# END tuist.runners
"""
BARE = """\
# tuist.runners: egress of virtual machines
anchor "tuist.runners"
load anchor "tuist.runners" from "/etc/pf.anchors/tuist.runners"
"""
THEIRS = 'anchor "somebody.else"\n'


def stripped(text: str) -> str:
    done = subprocess.run(
        ["/bin/bash", "-c", f"{FRAGMENT}\nwithout_ours"], input=text, text=True, capture_output=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(
    "left_behind",
    ["", OURS, BARE, OURS + BARE, BARE + OURS, OURS + OURS, OURS.replace("# END tuist.runners\n", "")],
    ids=["nothing", "marked", "bare", "both", "both, other order", "twice", "without its end"],
)
def test_nothing_of_ours_stays_and_everything_else_does(left_behind: str):
    assert stripped(APPLE + left_behind) == APPLE
    assert stripped(APPLE + left_behind + THEIRS) == APPLE + THEIRS
    assert stripped(left_behind + APPLE) == APPLE


def test_the_edit_is_its_own_fixed_point():
    once = stripped(APPLE + OURS + THEIRS)
    assert stripped(once) == once
