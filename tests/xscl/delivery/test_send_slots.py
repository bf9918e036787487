"""Send slots: a few for one host, and nothing kept of a host without sends."""

from __future__ import annotations

import asyncio

from xscl.delivery.send_slots import SAME_HOST, SendSlots


def test_a_host_has_slots_only_while_somebody_sends_there() -> None:
    async def run() -> None:
        slots, go, there = SendSlots(), asyncio.Event(), []

        async def send(host: str) -> None:
            async with slots.hold(7, host, False):
                there.append(host)
                await go.wait()

        sendings = [asyncio.create_task(send("one")) for _ in range(SAME_HOST + 2)]
        sendings.append(asyncio.create_task(send("other")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sorted(there) == ["one"] * SAME_HOST + ["other"]
        sendings[SAME_HOST].cancel()  # who waits and gives up frees no slot
        await asyncio.sleep(0)
        assert slots.hosts == 2
        go.set()
        await asyncio.gather(*sendings, return_exceptions=True)
        assert there.count("one") == SAME_HOST + 1
        assert slots.hosts == 0

    asyncio.run(run())
