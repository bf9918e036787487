"""Subscriptions for executors, in a directory that all of them can read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from feeds.documents import Document
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.errors import QueryError, StoreError
from xscl.shredding.remote_bindings import texts_of
from xscl.spark.designation import Sample, absence_of, designated, reason_against
from xscl.spark.plan_files import PLAN, PlanFiles, digest_of
from xscl.spark.plan_replica import PlanReplica

WHOLE_AFTER = 200
"""Changes after which a whole plan is written, so that a new worker applies few."""

_STORE, _PLAN = "catalog.sqlite", "plan-"


class _Published(NamedTuple):
    """A subscriber as it is in the files: the fields that show a change, and `since`."""

    name: str
    query: str
    since: int


class PlanWriter:
    """Writes the changes of an engine's plan for executors; the caller excludes changes."""

    def __init__(self, files: PlanFiles, sample: Sample) -> None:
        self._files = files
        self._sample = sample
        self._version = files.current()
        self._rows: set[int] = set()
        self._subscribers: dict[str, _Published] = {}
        self._changes = 0  # since the last whole plan
        if self._version:  # `since` is known to the files only
            known = PlanReplica(files, 0)
            known.advance(self._version)
            self._rows.update(known.registry.rows())
            every = [*known.absent.values(), *chain.from_iterable(known.subscribers.values())]
            self._subscribers = {
                one.key: _Published(one.name, one.query, one.since) for one in every
            }

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self._version

    @property
    def keys(self) -> Collection[str]:
        """The keys of the subscribers in the newest version."""
        return self._subscribers.keys()

    def write(self, engine: Engine, subscriptions: Iterable[Subscription]) -> None:
        """Write a version in which executors evaluate some subscriptions, unless it is the last."""
        wanted = {one.key: one for one in subscriptions}
        gone = {key for key, old in self._subscribers.items() if not _same(old, wanted.get(key))}
        new = [one for key, one in wanted.items() if key in gone or key not in self._subscribers]
        absences = {
            key: found
            for key, one in wanted.items()
            if (found := absence_of(engine.host.state, one)) is not None
        }
        joined = {one.qid for key, one in wanted.items() if key not in absences}
        rows = joined | {qid for one in absences.values() for qid in (one.left, one.right)}
        if not gone and not new and self._version:
            return
        version, added = self._version + 1, rows - self._rows
        with engine.host.transactions.change() as state:
            leads = designated(state.registry, sorted(joined - self._rows), self._sample)
            if leads:
                state.registry.designate(leads)
        registry = engine.host.state.registry
        subscribers = {
            one.key: _Published(one.name, one.query, self._since(one, version))
            for one in wanted.values()
        }
        is_whole = not self._version or bool(gone) or self._changes >= WHOLE_AFTER

        def change(qids: Iterable[int], listed: Collection[Subscription]) -> dict[str, pa.Table]:
            return {
                **registry.stored(sorted(qids)),
                "subscriber": _table([(one, subscribers[one.key].since) for one in listed]),
                "absence": pa.Table.from_pylist(
                    [absences[one.key]._asdict() for one in listed if one.key in absences],
                    schema=PLAN["absence"],
                ),
                "removed_row": _numbers([]),
                "removed_subscriber": _digests([]),
            }

        removed = {
            "removed_row": _numbers(sorted(self._rows - rows)),
            "removed_subscriber": _digests(gone),
        }
        self._files.write(
            version,
            change(added, new) | removed,
            change(rows, wanted.values()) if is_whole else None,
        )
        self._changes = 0 if is_whole else self._changes + 1
        self._version, self._rows, self._subscribers = version, rows, subscribers

    def _since(self, one: Subscription, version: int) -> int:
        """Return the version from which on a subscription sees documents."""
        old = self._subscribers.get(one.key)
        return old.since if old is not None and old.query == one.query else version


def _same(old: _Published, one: Subscription | None) -> bool:
    return one is not None and (old.name, old.query) == (one.name, one.query)


def _table(subscribers: Iterable[tuple[Subscription, int]]) -> pa.Table:
    rows = [
        {
            "qid": one.qid,
            "key": one.key,
            "name": one.name,
            "since": since,
            "is_distinct": one.distinct,
            "outputs": [name for _, name in one.outputs],
            "places": [place for place, _ in one.outputs],
            "query": one.query,
        }
        for one, since in subscribers
    ]
    return pa.Table.from_pylist(rows, schema=PLAN["subscriber"])


def _numbers(qids: list[int]) -> pa.Table:
    return pa.table([pa.array(qids, pa.int32())], schema=PLAN["removed_row"])


def _digests(keys: Iterable[str]) -> pa.Table:
    digests = sorted(map(digest_of, keys))
    return pa.table([pa.array(digests, pa.string())], schema=PLAN["removed_subscriber"])


def published_plan(directory: str | Path) -> PlanFiles:
    """Return the files of a catalog that another process may have open.

    Raises StoreError if there is no catalog, OSError if it cannot be read.
    """
    place = _known_place(Path(directory).absolute())
    if place is None or not (files := PlanFiles(place)).current():
        raise StoreError(
            f"there is no catalog in {directory}",
            hint="'xscl spark subscribe' and xscl.spark.Catalog make one",
        )
    return files


def published_queries(files: PlanFiles) -> dict[str, str]:
    """Return the query of each subscription of a catalog, by name, in the order of names."""
    replica = PlanReplica(files, 0)
    replica.advance(files.current())
    known = [*replica.absent.values(), *chain.from_iterable(replica.subscribers.values())]
    return {one.name: one.query for one in sorted(known, key=lambda one: one.name)}


class Catalog:
    """Subscriptions that executors evaluate, in a directory that all of them can read.

    One process changes a catalog; streams that read it see a change with the micro-batch that they
    begin to evaluate next.  In a sink that is the one at hand, until the first action on its frame.
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
            self.files = PlanFiles(_place(self.directory, is_new=is_new))
            self._writer = PlanWriter(self.files, cache(lambda: texts_of(sample)))
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
        return {one.name: one.query for one in self._engine.subscriptions}

    def subscribe(self, name: str, query: str) -> None:
        """Add a subscription, which sees documents from the next micro-batch on.

        Raises QueryError, also if executors cannot evaluate the query.
        """
        self.subscribe_many({name: query})

    def subscribe_many(self, queries: Mapping[str, str]) -> None:
        """Add subscriptions by name, all or none; raises QueryError."""
        self._engine.subscribe_many(queries.items())
        for name in queries:
            one = self._engine.host.state.subscriptions[name]
            reason = reason_against(self._engine.host.state, one, forever=self._forever)
            if reason is not None:
                for added in queries:
                    self._engine.unsubscribe(added)
                raise QueryError.at(
                    0,
                    f"executors cannot evaluate the subscription {name!r}: {reason}",
                    one.query,
                    hint="an engine can: push the rows to it (xscl.Engine.push)",
                )
        self._write()

    def unsubscribe(self, *names: str) -> None:
        """Remove subscriptions; the next micro-batch has no results of them.  Raises XsclError.

        No file of the catalog keeps their text: the plan and the store are rewritten, once for all
        names.
        """
        with closing(self._engine.host.connect()) as store:
            store.plan_rewrite()
            try:
                for name in names:
                    self._engine.unsubscribe(name)
            finally:
                self._write()
                store.rewrite()

    def _write(self) -> None:
        transactions = self._engine.host.transactions
        with transactions.committed() as state:
            every = [state.subscriptions[one.name] for one in self._engine.subscriptions]
            self._writer.write(
                self._engine,
                # The process may have ended before it removed one that was refused.
                [
                    one
                    for one in every
                    if one.key in self._writer.keys
                    or reason_against(state, one, forever=self._forever) is None
                ],
            )


def _place(directory: Path, *, is_new: bool) -> Path:
    """Return the folder of a catalog's plan.

    Its name is the catalog's own: executors never read the plan of another catalog that has taken
    the place of theirs.
    """
    while is_new and (left := _known_place(directory)) is not None:
        shutil.rmtree(left)
    return _known_place(directory) or directory / f"{_PLAN}{os.urandom(8).hex()}"


def _known_place(directory: Path) -> Path | None:
    # `glob` would find nothing in a directory that may not be read.
    names = os.listdir(directory) if directory.is_dir() else ()
    return min((directory / name for name in names if name.startswith(_PLAN)), default=None)
