"""A TCP server on loopback in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from tests.waiting import PATIENCE

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LONGEST_LINE = 1 << 20


@contextmanager
def listening(handle: Handler, hosts: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
    """Serve connections to free ports, and give the address of each host.

    At the end, connections that are still open are aborted.
    """
    addresses: list[tuple[str, int]] = []
    loop, ready, stopping = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

    async def run() -> None:
        listener = await asyncio.start_server(handle, hosts, 0, limit=LONGEST_LINE)
        addresses.extend(one.getsockname()[:2] for one in listener.sockets)
        ready.set()
        await stopping.wait()
        listener.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await asyncio.sleep(0.01)  # aborted transports close in the next turns of the loop

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert ready.wait(PATIENCE)
    try:
        yield addresses
    finally:
        loop.call_soon_threadsafe(stopping.set)
        thread.join(PATIENCE)
        loop.close()
