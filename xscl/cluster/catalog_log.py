"""Changes of the driver's catalog as controls of the log.

The driver's engine has the catalog: names, queries, streams, all checks.  The table
`state.cluster_member` has what the log says of it.  A change is committed to the catalog first and
appended to the log second: edits, pauses and removals at once, registrations and declarations
before the next documents.  A driver that crashes between the two appends it at its next start,
before it sequences another document, so its position in the log is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import pyarrow as pa

from feeds.faultpoints import reached
from xscl.cluster.controls import (
    Control,
    CopyPublisher,
    DeclareStream,
    Edit,
    Register,
    Remove,
)
from xscl.cluster.grid_subscriptions import GridSubscriptions
from xscl.cluster.placement import Choose, needed_copies
from xscl.cluster.sealed_log import SealedLog
from xscl.cluster.sequencer import SEQUENCED
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.engine.state import EngineState
from xscl.engine.twin import replayed_streams
from xscl.store.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_member(
    key VARCHAR, cell INTEGER, silent BOOLEAN, entry BIGINT, version INTEGER, paused BOOLEAN);
CREATE TABLE IF NOT EXISTS state.cluster_stream(
    name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN, attributes VARCHAR);
"""
"""`cluster_member`: the cells of subscriptions by key, where copies are silent, the entry of the
registration, the version that the log has, and whether it is paused there.  `cluster_stream`:
declarations as the log has them."""


LATEST = 1 << 62
"""A number after all entries."""
_COUNTS = "SELECT cell, count(*) FROM state.cluster_member WHERE NOT silent GROUP BY cell"


def kept_documents(state: EngineState, histories: Sequence[Subscription], coming: int) -> pa.Table:
    """Return the kept documents of histories, those among them that subscriptions published."""
    store, known = state.store, state.subscriptions
    read = {name for one in histories for name in replayed_streams(known, one)}
    store.lend("read_streams", pa.table({"name": sorted(read)}))
    return store.arrow(
        "SELECT d.*, t.xml FROM state.document d JOIN state.text t USING (doc)"
        " WHERE list_has_any(d.streams, (SELECT list(name) FROM read_streams))"
        f" AND d.first >= {min(one.since for one in histories)} AND d.doc < {int(coming)}"
        " ORDER BY d.doc"
    )


def placements(store: Store) -> dict[str, int]:
    """Return the cell in which each subscription was placed, by its key."""
    return dict(store.fetch("SELECT key, cell FROM state.cluster_member WHERE NOT silent"))


class CatalogLog:
    """Appends what has changed in a catalog to the log.  The engine's lock guards it."""

    def __init__(
        self,
        engine: Engine,
        log: SealedLog,
        choose: Choose,
        on_grid: GridSubscriptions | None = None,
    ) -> None:
        """Append to a log; `choose` returns the slice of a subscription that is not on the grid."""
        self._engine = engine
        self._log = log
        self.choose = choose
        """Chooses the slice of a new subscription."""
        self._on_grid = on_grid
        self._appended: tuple[int, ...] | None = None  # the state of the catalog in the log
        self.counts: Mapping[int, int] = {}
        """The number of subscriptions in each cell; replaced with each change."""

    def first_publisher(self, cells: int) -> int:
        """Return the entry of the earliest registration of a publisher that some cell lacks.

        A copy of it may be needed there later.  `LATEST` if there is none.
        """
        rows = self._engine.host.transactions.store.fetch(
            "SELECT key, min(entry) FROM state.cluster_member GROUP BY key HAVING count(*) < ?",
            [cells],
        )
        publishers = {one.key for one in self._subscriptions if one.publish is not None}
        return min((entry for key, entry in rows if key in publishers), default=LATEST)

    def append_changes(self, *more: Control, everywhere: Collection[int] = ()) -> dict[int, int]:
        """Append one entry with all changes since the last one, and `more`; none if there are none.

        Removals come before registrations, as a name may have been used again.  The cells
        `everywhere` get copies of all publishers.  Returns the cells with new histories, and the
        first document of these.
        """
        reached("registered")
        with self._engine.host.transactions.lock:
            current = self._engine.host.state.streams.state
            if current == self._appended and not more:
                return {}
            with self._engine.host.transactions.change() as state:
                store = state.store
                number, coming = store.meta(SEQUENCED) + 1, state.documents.coming
                if self._on_grid is not None:
                    self._on_grid.begin()
                controls: list[Control] = [*self._streams(store), *self._removals(store, coming)]
                edits = self._edits(store, coming)
                controls += edits
                controls += self._registrations(
                    state, number, coming, may_read_more=bool(edits), everywhere=everywhere
                )
                controls += more
                if controls:
                    self._log.write(number, tuple(controls))
                    store.set_meta(**{SEQUENCED: number})
                if self._on_grid is not None:
                    self._on_grid.save(store)
            if self._on_grid is not None:
                self._on_grid.apply()
            self.count()
            self._appended = current
        histories: dict[int, int] = {}
        for one in controls:
            if isinstance(one, Register) and one.first is not None:
                for cell in (one.cell, *one.silent):
                    histories[cell] = min(one.first, histories.get(cell, one.first))
        return histories

    def count(self) -> None:
        """Count the subscriptions of each cell again, after a change of the cells."""
        with self._engine.host.transactions.lock:
            self.counts = dict(self._engine.host.transactions.store.fetch(_COUNTS))

    def _streams(self, store: Store) -> Iterable[DeclareStream]:
        store.fetch(
            "DELETE FROM state.cluster_stream WHERE name NOT IN (SELECT name FROM state.stream)"
        )
        columns = "name, lateness, live, attributes"
        new = store.fetch(
            f"SELECT {columns} FROM state.stream EXCEPT SELECT {columns} FROM state.cluster_stream"
            " ORDER BY name"
        )
        for name, lateness, live, attributes in new:
            store.fetch("DELETE FROM state.cluster_stream WHERE name = ?", [name])
            store.insert_rows("state.cluster_stream", [(name, lateness, live, attributes)])
            yield DeclareStream(name, lateness, live, self._engine.attributes(name))

    @property
    def _subscriptions(self) -> Sequence[Subscription]:
        """Return all but those whose history is being read: they are registered at its end."""
        pending = self._engine.host.state.subscriptions.backfills
        return [one for one in self._engine.subscriptions if one.number not in pending]

    def _removals(self, store: Store, coming: int) -> list[Remove]:
        """Return those that are gone, and those of the grid that begin anew with another query."""
        keys = {one.key for one in self._subscriptions}
        gone = [key for key in placements(store) if key not in keys]
        if self._on_grid is not None:
            gone += self._on_grid.edited(self._edited(store), coming)
            self._on_grid.remove(gone)
        for key in gone:
            store.fetch("DELETE FROM state.cluster_member WHERE key = ?", [key])
        return [Remove(key) for key in gone]

    def _edits(self, store: Store, coming: int) -> list[Edit]:
        """Return the versions and pauses that the log does not have yet."""
        edited = self._edited(store)
        for one in edited:
            store.fetch(
                "UPDATE state.cluster_member SET version = ?, paused = ? WHERE key = ?",
                [one.version, one.is_paused, one.key],
            )
        return [
            Edit(one.key, one.query, one.language, one.updates, one.is_paused, coming)
            for one in edited
        ]

    def _edited(self, store: Store) -> list[Subscription]:
        rows = store.fetch("SELECT key, version, paused FROM state.cluster_member WHERE NOT silent")
        known = {key: (version, paused) for key, version, paused in rows}
        return [
            one
            for one in self._subscriptions
            if known.get(one.key, (one.version, one.is_paused)) != (one.version, one.is_paused)
        ]

    def _placed(self, new: Sequence[Subscription], coming: int) -> dict[str, int]:
        """Return the slices of new subscriptions, or their groups by the first cell.

        A history is read by one cell, and so lies in a slice.
        """
        if self._on_grid is None:
            return {one.key: self.choose(one) for one in new}
        published = frozenset(one.publish for one in self._subscriptions if one.publish)
        found = {}
        for one in new:
            group = self._on_grid.place(one, published) if one.since >= coming else None
            found[one.key] = self.choose(one) if group is None else group
        return found

    def _registrations(
        self,
        state: EngineState,
        number: int,
        coming: int,
        *,
        may_read_more: bool,
        everywhere: Collection[int],
    ) -> list[Control]:
        """Return new registrations, and the copies that these and edited subscriptions need."""
        store = state.store
        cells = placements(store)
        new = [one for one in self._subscriptions if one.key not in cells]
        if not (new or may_read_more or everywhere):
            return []
        cells.update(self._placed(new, coming))
        rows = store.fetch("SELECT key, cell, entry FROM state.cluster_member")
        known = {(key, cell) for key, cell, _ in rows}
        registered = {key: entry for key, _, entry in rows}
        copies = needed_copies(self._subscriptions, cells)
        if self._on_grid is not None:
            self._on_grid.widen_copies(copies)
        for one in self._subscriptions if everywhere else ():
            if one.publish is not None:
                copies[one.key].update(cell for cell in everywhere if cell != cells[one.key])
        controls: list[Control] = []
        members: list[tuple[str, int, bool, int, int, bool]] = []
        if histories := [one for one in new if one.since < coming]:
            self._log.write_history(number, kept_documents(state, histories, coming))
        clock = state.documents.clock
        for one in new:
            silent = tuple(sorted(copies.get(one.key, ())))
            cell = cells[one.key]
            asked = one.query, one.language, one.updates, coming, cell, silent
            begun = (one.since, clock) if one.since < coming else ()
            given = Register(one.key, *asked, *begun)
            controls.append(given if self._on_grid is None else self._on_grid.placed(given))
            version = one.version, one.is_paused
            members.append((one.key, cell, False, number, *version))
            members += ((one.key, other, True, number, *version) for other in silent)
            if one.is_paused:
                edited = one.query, one.language, one.updates, True, coming
                controls.append(Edit(one.key, *edited))
        versions = {one.key: (one.version, one.is_paused) for one in self._subscriptions}
        for key in sorted(copies.keys() & registered.keys()):
            for cell in sorted(copies[key]):
                if (key, cell) not in known:
                    controls.append(CopyPublisher(key, cell, registered[key]))
                    members.append((key, cell, True, registered[key], *versions[key]))
        store.insert_rows("state.cluster_member", members)
        return controls
