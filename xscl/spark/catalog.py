"""Subscriptions for executors, in a directory that all of them can read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path

import pyarrow as pa

from feeds.documents import Document
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.errors import QueryError, StoreError
from xscl.shredding.arrivals import texts_of
from xscl.spark.designation import absence_of, designated, reason_against
from xscl.spark.plan_files import PLAN, PlanFiles, unreadable
from xscl.spark.plan_replica import PlanReplica

_STORE, _PLAN = "catalog.sqlite", "plan-"


def _row(one: Subscription) -> dict[str, object]:
    """Return a subscription as a row of the relation `subscriber` of a plan."""
    same = {name: getattr(one, name) for name in ("qid", "key", "name", "since", "query")}
    outputs = {
        "places": [place for place, _ in one.outputs],
        "outputs": [name for _, name in one.outputs],
    }
    return {**same, **outputs, "is_distinct": one.distinct}


def _subscriptions(files: PlanFiles) -> list[Subscription]:
    """Return the subscribers in the newest version."""
    replica = PlanReplica(files, lateness=0, version=0)
    return [*replica.absent.values(), *chain.from_iterable(replica.subscribers.values())]


def published_plan(directory: str | Path) -> PlanFiles:
    """Return the files of a catalog that another process may have open.

    Raises StoreError if there is no catalog, OSError if it cannot be read.
    """
    for place in _plans(Path(directory).absolute()):
        if (files := PlanFiles(place)).current():
            return files
    raise StoreError(
        f"there is no catalog in {directory}",
        hint="'xscl spark subscribe' and xscl.spark.Catalog make one",
    )


def published_queries(files: PlanFiles) -> dict[str, str]:
    """Return the query of each subscription of a catalog, by name, in the order of names."""
    known = sorted(_subscriptions(files), key=lambda one: one.name)
    return {one.name: one.query for one in known}


class Catalog:
    """Subscriptions that executors evaluate, in a directory that all of them can read.

    One process changes a catalog; streams that read it see a change with the micro-batch that they
    begin to evaluate next.  For a change in a sink, before the first action on its frame, that is
    the micro-batch of the sink.
    With `sample`, documents like those to come, a join of several equalities divides documents by
    the one whose values are shared least.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        sample: Iterable[Document] = (),
        forever: bool = False,
    ) -> None:
        """Open or create a catalog; raises StoreError if it is open in another process."""
        self.directory = Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._forever = forever
        is_new = not (self.directory / _STORE).exists()
        self._engine = Engine(self.directory / _STORE)
        try:
            plans = _plans(self.directory)
            while is_new and plans:
                shutil.rmtree(plans.pop())
            # Its name is the catalog's own: executors never read the plan of another catalog that
            # has taken the place of theirs.
            own = self.directory / f"{_PLAN}{os.urandom(8).hex()}"
            self.files = PlanFiles(plans[0] if plans else own)
            self._sample = cache(lambda: texts_of(sample))
            # by key; `since` is the version of the plan from which a subscription has results
            self._known: Mapping[str, Subscription] = {}
            if self.files.current():  # `since` is known to the files only
                self._known = {
                    subscription.key: subscription for subscription in _subscriptions(self.files)
                }
            elif self._engine.subscriptions:
                # Streams would take the numbers of new versions for those of earlier ones.
                raise unreadable(f"{self.directory} has subscriptions and no file 'newest'")
            self._write()
        except BaseException:
            self._engine.close()
            raise

    def __repr__(self) -> str:
        return f"Catalog({str(self.directory)!r}, {len(self._engine.subscriptions)} subscriptions)"

    def __enter__(self) -> Catalog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the catalog, which another process may change then."""
        self._engine.close()

    @property
    def subscriptions(self) -> dict[str, str]:
        """The query of each subscription, by name."""
        return {
            subscription.name: subscription.query for subscription in self._engine.subscriptions
        }

    def subscribe(self, name: str, query: str) -> None:
        """Add a subscription, which sees documents from the next micro-batch on.

        Raises QueryError, also if executors cannot evaluate the query.
        """
        self.subscribe_many({name: query})

    def subscribe_many(self, queries: Mapping[str, str]) -> None:
        """Add subscriptions by name, all or none; raises QueryError."""
        _subscribe_many(self._engine, queries, forever=self._forever)
        self._write()

    def unsubscribe(self, *names: str) -> None:
        """Remove subscriptions; the next micro-batch has no results of them.  Raises XsclError.

        No file of the catalog keeps their text: the plan and the store are rewritten, once for all
        names.
        """
        with closing(self._engine.connect()) as store:
            store.plan_rewrite()
            try:
                for name in names:
                    self._engine.unsubscribe(name)
            finally:
                self._write()
                store.rewrite()

    def _write(self) -> None:
        """Write a version of the plan, unless the last one has the same subscriptions."""
        wanted, version = {}, self.files.current()
        with self._engine.transactions.committed() as state:
            for one in state.subscriptions:
                old = self._known.get(one.key)
                # The process may have ended before it removed a refused subscription.
                if old is None and reason_against(state, one, forever=self._forever) is not None:
                    continue
                if old is None or old.query != one.query:
                    old = replace(one, since=version + 1)
                wanted[one.key] = replace(one, since=old.since)
            before, after = (
                {(one.key, one.name, one.query) for one in every.values()}
                for every in (self._known, wanted)
            )
            if before == after and version:
                return
            each = {key: absence_of(state, one) for key, one in wanted.items()}
            absences = {key: absence for key, absence in each.items() if absence is not None}
            joined = {one.qid for key, one in wanted.items() if key not in absences}
            rows = joined | {qid for one in absences.values() for qid in (one.left, one.right)}
            with self._engine.transactions.change() as state:
                leads = designated(state.registry, sorted(joined), self._sample)
                state.registry.designate(leads)
            relations = {
                "subscriber": [_row(one) for one in wanted.values()],
                "absence": [absence._asdict() for absence in absences.values()],
            }
            tables = {name: pa.Table.from_pylist(of, PLAN[name]) for name, of in relations.items()}
            self.files.write(self._engine.state.registry, rows, tables)
            self._known = wanted


def refuse_unfit(queries: Mapping[str, str], *, forever: bool) -> None:
    """Raise QueryError for queries that executors cannot evaluate, whatever the catalog."""
    with Engine() as engine:
        _subscribe_many(engine, queries, forever=forever)


def _subscribe_many(engine: Engine, queries: Mapping[str, str], *, forever: bool) -> None:
    engine.subscribe_many(queries.items())
    for name in queries:
        one = engine.state.subscriptions[name]
        reason = reason_against(engine.state, one, forever=forever)
        if reason is not None:
            for added in queries:
                engine.unsubscribe(added)
            raise QueryError.at(
                0,
                f"executors cannot evaluate the subscription {name!r}: {reason}",
                one.query,
                hint="an engine can: push the rows to it (xscl.Engine.push)",
            )


def _plans(directory: Path) -> list[Path]:
    """Return the folders of plans in a directory: one, unless a catalog took another's place."""
    # `glob` would find nothing in a directory that may not be read.
    names = os.listdir(directory) if directory.is_dir() else ()
    return sorted(directory / name for name in names if name.startswith(_PLAN))
