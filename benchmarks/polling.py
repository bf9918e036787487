"""`polling`: feeds from a server on the same machine to the spool, and an answer that is the same.

Each round polls all feeds once: the first finds every item new, the second finds the same items
again.  The time is processor time of this process; the server is another one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.feed_bodies import bodies
from benchmarks.harness import Options, Row, require_equal
from feeds.spool import Spool
from xscl.engine.facade import Engine
from xscl.polling.feed_commands import follow
from xscl.polling.feed_poller import PollSettings, poll_now
from xscl.polling.feed_repository import FeedRepository, FeedRequest

NAME = "polling"
SEED = 29
ENTRIES = 117
QUICK_FEEDS, FEEDS = (10, 40), (50, 201)


def run(options: Options) -> Iterator[Row]:
    """Yield a row for each number of feeds and round."""
    for feeds in QUICK_FEEDS if options.quick else FEEDS:
        yield from polled(feeds)


def polled(count: int) -> Iterator[Row]:
    """Yield the first and the second round of so many feeds."""
    with (
        tempfile.TemporaryDirectory() as place,
        _serving(count) as port,
        Engine(Path(place) / "state.sqlite", owns_process=True) as engine,
        Spool(Path(place) / "spool") as spool,
        FeedRepository(engine) as feeds,
    ):
        for number in range(count):
            follow(engine, feeds, FeedRequest(f"http://127.0.0.1:{port}/{number}"))
        settings = PollSettings(allow_addresses=(f"127.0.0.1:{port}",), quick=True)
        for variant, expected in (("new", count * ENTRIES), ("same", 0)):
            began = time.process_time()
            polls = poll_now(feeds, spool, list(feeds), settings)
            spent = time.process_time() - began
            require_equal([sum(poll.new for poll in polls)], [expected], variant)
            yield Row(
                NAME,
                {"feeds": count, "variant": variant, "scope": "polling", "storage": "file"},
                {
                    "items_per_s": count * ENTRIES / spent,
                    "feeds_per_s": count / spent,
                    "milliseconds": 1_000 * spent,
                },
            )


@contextmanager
def _serving(count: int) -> Iterator[int]:
    """The port of a server of so many feeds, in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(count, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(count: int, started: Connection) -> None:
    written = bodies(count, ENTRIES, SEED)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        body = written[int(asked[1:])]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        started.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())
