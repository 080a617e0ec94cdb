"""`paddock node-agent check` on a Mac whose Tart is the stand-in: each finding is made, and names its remedy."""

import os
from pathlib import Path

from integration.tart.conftest import IMAGE, TartHome

from paddock.base.clock import SystemClock
from paddock.node.check import Finding, check_mac
from paddock.node.files import DiskFiles
from paddock.node.mac_host import MacHost
from paddock.node.tart_process import TartProcess


async def findings(tart: TartHome, tmp_path: Path) -> dict[str, Finding]:
    process = TartProcess(tart.program, tart.home, environ=tart.environment)
    found = check_mac(process, MacHost(tmp_path), DiskFiles(), tmp_path / "check", IMAGE, SystemClock())
    return {each.what: each async for each in found}


async def test_a_word_goes_into_the_guest_and_back_and_both_user_numbers_are_shown(tart: TartHome, tmp_path: Path):
    found = await findings(tart, tmp_path)
    assert found["shares"].problem == ""
    assert f"the agent's {os.getuid()}" in found["shares"].seen
    assert "unknown" not in found["shares"].seen
    assert found["halt"].problem == ""
    assert not list((tmp_path / "check").iterdir()), "what was made on the way stays"
