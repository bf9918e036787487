"""Places for sending: so many for one host, and nothing kept of a host that nobody sends to."""

from __future__ import annotations

import asyncio

from xscl.delivery.places import SAME_HOST, Places


def test_a_host_has_its_places_only_while_somebody_sends_there() -> None:
    async def run() -> None:
        places, go, there = Places(), asyncio.Event(), []

        async def send(host: str) -> None:
            async with places.sending(7, host, False):
                there.append(host)
                await go.wait()

        sendings = [asyncio.create_task(send("one")) for _ in range(SAME_HOST + 2)]
        sendings.append(asyncio.create_task(send("other")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert sorted(there) == ["one"] * SAME_HOST + ["other"]
        sendings[SAME_HOST].cancel()  # who waits and gives up frees no place
        await asyncio.sleep(0)
        assert len(places._hosts) == 2
        go.set()
        await asyncio.gather(*sendings, return_exceptions=True)
        assert there.count("one") == SAME_HOST + 1
        assert not places._hosts
        assert not places._held

    asyncio.run(run())
