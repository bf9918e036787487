"""A server on loopback in a thread of its own, and requests of HTTP that a function answers."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from random import SystemRandom
from typing import TypeAlias

from tests.waiting import PATIENCE

Handler: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came; names of headers are in lower case."""

    head: bytes
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer: TypeAlias = Callable[[Request, asyncio.StreamWriter], Awaitable[bytes | None]]
"""Returns an answer, head included, or None if it has written it, or done something else."""


def answering(answer: Answer) -> Handler:
    """Return a handler that reads one request of a connection and answers it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            parts = (line.partition(": ") for line in lines if line)
            headers = {name.lower(): value for name, _, value in parts}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            method, path, *_ = first.split()
            made = await answer(Request(head, method, path, headers, body), writer)
            if made is not None:
                writer.write(made)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            writer.transport.abort()  # a task ends with its server
        finally:
            writer.close()

    return handle


def free_port() -> int:
    """Return a port on loopback that nobody has, to listen there later and more than once.

    It is below those that systems choose for others: connections of other tests take some of these.
    """
    with socket.socket() as tried:
        while True:
            with suppress(OSError):
                tried.bind(("127.0.0.1", SystemRandom().randrange(10_000, 30_000)))
                return int(tried.getsockname()[1])


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
