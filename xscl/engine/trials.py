"""Trials: a query evaluated over the kept documents, by a second engine in memory.

The engine does not change, and its lock is free meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import NamedTuple
from weakref import finalize

import numpy as np

from cep_core import is_calendar
from xscl.engine.batch_size import FEWEST, BatchSize
from xscl.engine.transactions import Transactions
from xscl.engine.twin import Twin
from xscl.errors import Stopping, TooLong
from xscl.inspection import replay
from xscl.inspection.replay import TrialScope
from xscl.subscriptions.matches import Matches

SLICE = 0.5
"""Seconds that a trial works on a batch: it can be ended between two of them."""


class TrialResult(NamedTuple):
    """The matches of a trial, and the ids of documents at which the bound of results cut it.

    `late` documents came too late for its query, whose streams have a `lateness` in ticks.
    `close` frees the private engine that the matches are read from; it is called at the latest when
    the last of them is.  The collector of cycles would come late: an engine has threads of DuckDB.
    """

    matches: Matches
    cut: set[str]
    close: Callable[[], None]
    late: int
    lateness: int


def run_trial(
    transactions: Transactions,
    trial: TrialScope,
    until: float | None = None,
    dropped: threading.Event | None = None,
) -> TrialResult:
    """Evaluate a trial on the past of an engine; any thread may.

    `until` is a time of `time.monotonic`; `dropped` is set when nobody waits any more.  Raises
    TooLong after either, Stopping when the process ends.
    """
    with ExitStack() as failing:
        twin = Twin(transactions)
        failing.callback(twin.close)
        with transactions.lock:
            store = transactions.connect()
            lateness = {one: transactions.state.streams.lateness(one) for one in trial.streams}
            clock = transactions.state.documents.clock
            latest = max(lateness.values(), default=0)
            watermark = transactions.state.dataflow.watermark(clock, latest)
        twin.register(trial, lateness)
        behind: list[int] = []
        size = BatchSize(SLICE, replay.BATCH, SLICE / FEWEST)
        with closing(store):
            if any(map(is_calendar, trial.streams)) and (begin := replay.first(store, trial)):
                twin.occur(begin, min(trial.end, clock))
            docs = replay.past(store, trial)
            while len(docs):
                began = time.monotonic()
                if transactions.ending.is_set():
                    raise Stopping
                if until is not None and began > until:
                    raise TooLong
                if dropped is not None and dropped.is_set():
                    raise TooLong
                some, docs = np.split(docs, [size.documents])
                behind += twin.replay(
                    store, some, own_time=trial.own_time, in_order=False, texts=trial.texts
                )
                size.learn(len(some), time.monotonic() - began)
        # An absence whose deadline is later is no match yet.
        twin.end_own_time(watermark, clock)
        dataflow = twin.state.dataflow
        qids = dataflow.subscribed.qids(twin.state.subscriptions[trial.name])
        matches = twin.matches()
        close = finalize(matches.source, twin.close)
        close.atexit = False
        late = twin.count_late(behind)
        failing.pop_all()
        return TrialResult(matches, dataflow.cuts.ids_of(qids), close, late, latest)
