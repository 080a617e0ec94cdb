"""`paddock get -w`: a change is seen by the API server's watch, without listing again."""

import asyncio
from contextlib import aclosing

from unit.cli.scene import Scene

from paddock.base.clock import SystemClock
from paddock.cli.connections import Reach, connected
from paddock.cli.kinds import kind_called
from paddock.cli.watching import changes
from paddock.kube.builtin import Pod


def test_a_change_is_shown_by_a_watch_and_nothing_is_listed_again(scene: Scene):
    async def look() -> tuple[list[str], list[str]]:
        reach = Reach(kubeconfig=scene.cluster.kubeconfig, namespace="default", server=scene.ledger.url)
        async with connected(reach) as reached, asyncio.timeout(30):
            lists = 0
            whole = reached.client.pages

            def counted(*args: object, **how: object) -> object:
                nonlocal lists
                lists += 1
                return whole(*args, **how)  # type: ignore[arg-type]

            reached.client.pages = counted  # type: ignore[method-assign]
            async with aclosing(changes(kind_called("pods"), reached, "", SystemClock())) as readings:
                first = [pod.metadata.name for pod in await anext(readings)]
                await reached.client.delete(Pod, "runner-2", "default")
                async for reading in readings:
                    names = [pod.metadata.name for pod in reading if pod.metadata.deletion_timestamp is None]
                    if names != first:
                        assert lists == 1
                        return first, names
        raise AssertionError("the watch ended")

    assert asyncio.run(look()) == (["runner-1", "runner-2"], ["runner-1"])
