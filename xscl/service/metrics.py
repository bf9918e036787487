"""Prometheus metrics of requests, pushes and the status of the service.

Labels are route templates and fixed words, never names that users chose, so that their number is
bounded.  Counters start with the service.  Gauges are read from the status file that the service
writes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from xscl.engine.facade import Engine
from xscl.engine.throughput import PushStage
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.connection_limit import ConnectionLimit
from xscl.service.figures import GAUGES, sharing
from xscl.service.problems import PROBLEM, route_of
from xscl.store.queries.status import metric_counts
from xscl.store.store import Store

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

_COUNTED = {
    "feeds": ("state", "Feeds by state"),
    "feeds_failing": ("code", "Feeds whose last poll failed, by its code"),
    "endpoints": ("state", "Endpoints of deliveries by state"),
    "dead_letters": ("state", "Matches that could not be delivered"),
    "rejections": ("code", "Documents that were not taken and are remembered, by reason"),
    "cuts": (
        "state",
        "Documents with more results of a join than the bound, of the latest ones of each join",
    ),
}
"""Metrics counted from tables (`metric_counts`): the name of their label, and a description."""


class Metrics:
    """The metrics of one service, in a registry of its own."""

    def __init__(self, engine: Engine, home: DataDirectory, limit: ConnectionLimit) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        timer = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        what = "How long the stages of a push took"
        self._stages = timer("xscl_push_stage_seconds", what, ["stage"])
        what = "Requests that were answered, by route and status"
        self._requests = counter("xscl_requests", what, ["method", "route", "status"])
        what = "Requests that were answered with a problem, by its code"
        self._problems = counter("xscl_problems", what, ["code"])
        what = "How long it took until an answer began"
        self._answers = timer("xscl_request_seconds", what, ["route"])
        engine.ingest.pace.listener = self._stage
        self.figures = _StatusCollector(engine, home, limit)
        self.registry.register(self.figures)

    def _stage(self, stage: PushStage, seconds: float) -> None:
        self._stages.labels(stage).observe(seconds)

    def answered(
        self, method: str, route: str, status: int, seconds: float, problem: str | None
    ) -> None:
        """Count a request and its problem code if it has one; `seconds` until its answer began."""
        self._requests.labels(method, route, str(status)).inc()
        if problem is not None:
            self._problems.labels(problem).inc()
        self._answers.labels(route).observe(seconds)

    def text(self, store: Store) -> bytes:
        """Return all metrics in the text format; `store` is a connection of the caller."""
        self.figures.counted = metric_counts(store)
        return generate_latest(self.registry)


class _StatusCollector(Collector):
    """A collector of metrics from the engine, the status file and tables."""

    def __init__(self, engine: Engine, home: DataDirectory, limit: ConnectionLimit) -> None:
        self._engine = engine
        self._home = home
        self._limit = limit
        self.counted: dict[str, dict[str, int]] = {}

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics."""
        pace, state = self._engine.ingest.pace, self._engine.state
        for name, value, what in (
            ("pushes", pace.pushes, "Batches that were pushed since the start"),
            ("pushed_documents", pace.documents, "Documents that were taken since the start"),
            ("pushed_matches", pace.matches, "Matches that were found since the start"),
            ("refused_connections", self._limit.refused, "Connections beyond a limit"),
        ):
            yield _metric(name, what, value, kind=CounterMetricFamily)
        what = "Rows of joins' results, by what evaluated the conjunctive query"
        rows = state.processor.result_rows
        yield _metric("result_rows", what, rows, "evaluator", CounterMetricFamily)
        what = "Bytes of the state that joins meet in memory"
        yield _metric("kept_bytes", what, state.processor.state.nbytes)
        places = dict(zip(("executors", "here"), state.registry.places(), strict=True))
        what = "Distinct joins and filters, by where they are evaluated"
        yield _metric("joins_by_place", what, places, "place")
        for name, (label, what) in _COUNTED.items():
            yield _metric(name, what, dict(sorted(self.counted.get(name, {}).items())), label)
        yield from _of_status(self._home.read_status() or {})


def _of_status(written: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metrics whose values are in the content of the status file."""
    stall, executors = written.get("stalled") or {}, written.get("executors") or {}
    away, ahead = executors.get("away") is not None, written.get("wall_clock_ahead", 0.0)
    yield _metric("paused", "1 while nothing new is taken", bool(written.get("paused")))
    yield _metric("executors_away", "1 while documents wait for executors of Spark", away)
    what = "Seconds that segments have waited without a commit, 0 below a minute"
    yield _metric("consumer_stalled_seconds", what, stall.get("seconds", 0.0))
    what = "Seconds that the wall clock is ahead of the times given to documents"
    yield _metric("wall_clock_ahead_seconds", what, ahead)
    if not GAUGES.keys() <= written.keys():  # nothing was written yet, or by another release
        return
    for name, what in GAUGES.items():
        yield _metric(name, what, written[name])
    yield _metric("sharing", "Subscriptions for each distinct join", sharing(written))
    for name in ("documents", "matches") if written["rates"] is not None else ():
        rates = {over: written["rates"][f"{name}_{over}"] for over in ("1m", "5m")}
        yield _metric(f"{name}_per_second", f"The rate of {name}, on average", rates, "over")
    windows = written["windows"] or ()
    for name, what in (
        ("witnesses", "Witnesses of joins that are kept, by the window's length"),
        ("instances", "Instances of operators over time that are kept, by the window's length"),
    ):
        yield _metric(f"state_{name}", what, _by_length(windows, name), "window")
    growth = sum(window["last_day"] for window in windows if window["ticks"] is None)
    what = "Of what is kept for ever, how much came in the last day"
    yield _metric("state_growth", what, growth)


def _metric(
    name: str,
    what: str,
    value: float | Mapping[str, float],
    label: str = "",
    kind: type[CounterMetricFamily | GaugeMetricFamily] = GaugeMetricFamily,
) -> Metric:
    """Return a metric with one value, or with a value for each word of `label`.

    `name` is without `xscl_`; `what` is the description.
    """
    family = kind(f"xscl_{name}", what, labels=[label] if label else [])
    for word, number in value.items() if isinstance(value, Mapping) else (("", value),):
        family.add_metric([word] if label else [], float(number))
    return family


_LENGTHS = {
    "up to 1 min": 60_000_000,
    "up to 1 h": 3_600_000_000,
    "up to 1 d": 86_400_000_000,
    "up to 7 d": 604_800_000_000,
    "longer": math.inf,
}


def _by_length(windows: Iterable[Mapping[str, Any]], what: str) -> dict[str, int]:
    """Return the sums of the figure `what` of windows, by the names of `_LENGTHS` and `ever`."""
    found = dict.fromkeys((*_LENGTHS, "ever"), 0)
    for window in windows:
        ticks = window["ticks"]
        fitting = (name for name, most in _LENGTHS.items() if ticks is not None and ticks <= most)
        found[next(fitting, "ever")] += window[what]
    return found


class Counting:
    """Middleware that counts requests by route template; `clock` returns seconds."""

    def __init__(self, app: ASGIApp, metrics: Metrics, clock: Any) -> None:
        self._app = app
        self._metrics = metrics
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = self._clock(), int(HTTPStatus.INTERNAL_SERVER_ERROR)
        until = began

        async def noted(message: Message) -> None:
            nonlocal status, until
            if message["type"] == "http.response.start":
                status, until = message["status"], self._clock()
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            route = route_of(scope)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            seconds = max(0.0, until - began)
            self._metrics.answered(method, route, status, seconds, scope.get(PROBLEM))


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
