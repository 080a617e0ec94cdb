"""Every world of this folder runs on both links, unless its test is about one of them."""

import pytest
from simulation.node.node_world import NodeWorld


@pytest.fixture(params=["kubernetes", "gateway"], autouse=True)
def link(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(NodeWorld, "LINK", request.param)
    return request.param
