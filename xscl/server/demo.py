"""The demonstration: three sample feeds on this machine, five subscriptions, the whole pipeline.

A server on the loopback address publishes samples in steps (`xscl.web.samples`).  When all feeds
have been fetched in the current step, and the consumer runs, it publishes the next step of each.
The items of the first poll are history and all later ones are new, so the matches do not depend on
timing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from feeds.spool import Spool
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory, DataDirectoryError
from xscl.polling.feed_commands import follow
from xscl.polling.feed_repository import FeedRepository, FeedRequest, ticks
from xscl.server.serve import ServeSettings, Service
from xscl.server.termination import stopped_by_signals
from xscl.service.app import ServiceSettings
from xscl.subscriptions.match import Match
from xscl.web.gallery import UseCase, cases, documents
from xscl.web.samples import STEPS, Sample, feeds, feeds_until, subscriptions

EVERY = 1
"""Seconds between two polls of a sample feed."""
PACE = 5.0
"""Minimum seconds between two steps of `xscl serve --demo`, so that users see items come."""
SHOWN = ("after-a-gale", "same-picture")
STORIES = "same-story"
"""The sample subscriptions of `xscl serve --demo`, and the use case of the gallery to which it also
subscribes: its story grows with the last step, so the largest story is the first on the page."""


class SamplePublisher(ThreadingHTTPServer):
    """A server that publishes samples in steps, each at least `pace` seconds after the last.

    Steps begin when `begun` is set; after the last one `finished` is set.
    """

    daemon_threads = True

    def __init__(self, samples: Sequence[Sample], pace: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.samples = {f"/{sample.name}": sample for sample in samples}
        self.begun = threading.Event()
        self.finished = threading.Event()
        self._mutex = threading.Lock()
        self._step = 0
        self._pace = pace
        self._next = 0.0
        self._fetched: set[str] = set()

    @property
    def address(self) -> str:
        """The host and port of the server."""
        return f"127.0.0.1:{self.server_port}"

    def url(self, sample: Sample) -> str:
        return f"http://{self.address}/{sample.name}"

    def fetch(self, path: str) -> tuple[Sample, int]:
        """Return the sample at a path and its current step; the step ends when all were fetched.

        It does not end before `begun`.  After the last step all samples are fetched once more: a
        client that fetches again has processed the answer before.
        """
        with self._mutex:
            step = self._step
            self._fetched.add(path)
            now = time.monotonic()
            is_whole = len(self._fetched) == len(self.samples) and self.begun.is_set()
            if is_whole and now >= self._next:
                self._step, self._fetched, self._next = step + 1, set(), now + self._pace
            if self._step > STEPS + 1:
                self.finished.set()
            return self.samples[path], min(step, STEPS)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SamplePublisher

    def do_GET(self) -> None:
        if self.path not in self.server.samples:
            self.send_error(404)
            return
        sample, step = self.server.fetch(self.path)
        tag = f'"step-{step}"'
        unchanged = self.headers["If-None-Match"] == tag
        body = b"" if unchanged else sample.at(step)
        self.send_response(304 if unchanged else 200)
        self.send_header("ETag", tag)
        if not unchanged:
            self.send_header("Content-Type", sample.media_type)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the demonstration's output is its matches."""


@contextmanager
def publishing(samples: Sequence[Sample] = (), pace: float = 0.0) -> Iterator[SamplePublisher]:
    """Publish samples while the block runs, by default those of the demonstration."""
    with SamplePublisher(samples or feeds(), pace) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def demonstrate(
    home: DataDirectory,
    on_matches: Callable[[Sequence[Match]], None],
    *,
    master: str | None,
    once: bool,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Run the demonstration in a new data directory, and return its figures at the end.

    `master` is the Spark master whose executors evaluate documents, None without Spark.  With
    `once` the demonstration ends after the last step.  Else it also serves the web UI, and ends at
    SIGINT or SIGTERM.  `tell` gets lines about its progress.
    """
    listening = None if once else ServiceSettings(port=0)  # any free port
    serving = ServeSettings(master, listen=listening)
    with _followed(home, serving, feeds(), 0.0, subscriptions()) as (settings, server):

        def consuming(seconds: float) -> None:
            server.begun.set()
            if master is not None:
                tell(f"Spark has started in {seconds:.0f} s")

        def listens(address: str) -> None:
            tell(f"the page is at {address}/")

        service = Service(home, settings, on_matches, listens, consuming)
        tell(f"three feeds at http://{server.address}/, five subscriptions, data in {home.path}")
        tell("without Spark" if master is None else "Spark starts in some ten seconds")
        with stopped_by_signals(service.stop):
            service.run(server.finished if once else None)
    return (home.read_status() or {}) | {"rates": None, "windows": None}


@contextmanager
def serving_samples(
    home: DataDirectory, serving: ServeSettings
) -> Iterator[tuple[ServeSettings, SamplePublisher]]:
    """Set up a new data directory with samples; yield settings to serve it, and their publisher.

    The samples are the items of the gallery, and feeds that publish in steps once `begun` is set,
    so that matches come while users look.  All items are dated in the last days, so queries find
    them like those of real feeds.
    """
    now = ticks()
    samples = feeds_until(datetime.fromtimestamp(now // 1_000_000, UTC))
    queries = {name: subscriptions()[name] for name in SHOWN}
    told = next(case for case in cases() if case.slug == STORIES)
    with _followed(home, serving, samples, PACE, queries, told) as settings_and_server:
        with home.hold("demo"), Spool(home.spool) as spool:
            spool.append(documents(now), now)
        yield settings_and_server


@contextmanager
def _followed(
    home: DataDirectory,
    serving: ServeSettings,
    samples: Sequence[Sample],
    pace: float,
    queries: Mapping[str, str],
    told: UseCase | None = None,
) -> Iterator[tuple[ServeSettings, SamplePublisher]]:
    """Publish samples during the block; make a new data directory that follows them.

    It has subscriptions to `queries` by name, and to the use case `told`, with stories if that has
    them.  Yield the settings to serve it, and the publisher.
    """
    if home.exists():
        raise DataDirectoryError(
            f"{home.path} holds data already", hint="the demonstration needs a new directory"
        )
    with publishing(samples, pace) as server:
        with (
            home.hold("demo"),
            Engine(home.database, owns_process=True) as engine,
            FeedRepository(engine) as followed,
        ):
            for sample in server.samples.values():
                wanted = FeedRequest(server.url(sample), sample.stream, every=EVERY)
                follow(engine, followed, wanted)
            engine.subscribe_many(queries.items())
            if told is not None:
                engine.subscribe(told.slug, told.query, stories=told.stories)
        allowed = (*serving.fetching.allow_addresses, server.address)
        fetching = replace(serving.fetching, allow_addresses=allowed, quick=True)
        yield replace(serving, poll_interval=EVERY / 4, fetching=fetching), server
