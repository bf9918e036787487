"""Changes of the driver's catalog as controls of the log.

The driver's engine has the catalog: names, queries, streams, all checks.  The table
`state.cluster_member` has what the log says of it.  A change is committed to the catalog first and
appended to the log second: edits, pauses and removals at once, registrations and declarations
before the next documents, edits or removals.  A driver that crashes between the two appends it at
its next start, before it sequences another document, so its position in the log is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from feeds.faultpoints import reached
from xscl.cluster.controls import (
    NOWHERE,
    Control,
    CopyPublisher,
    DeclareStream,
    Edit,
    Register,
    Remove,
)
from xscl.cluster.grid_subscriptions import GridSubscriptions
from xscl.cluster.history_transfer import history_documents, in_order
from xscl.cluster.placement import Choose, needed_copies
from xscl.cluster.sealed_log import SealedLog
from xscl.cluster.sequencer import SEQUENCED
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.engine.state import EngineState
from xscl.store.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_member(
    key VARCHAR, cell INTEGER, silent BOOLEAN, entry BIGINT, version INTEGER, paused BOOLEAN);
ALTER TABLE state.cluster_member ADD COLUMN IF NOT EXISTS made BIGINT;
CREATE TABLE IF NOT EXISTS state.cluster_stream(
    name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN, attributes VARCHAR);
"""
"""`cluster_member`: the cells of subscriptions by key, where copies are silent, the entry of the
registration, the version that the log has, and whether it is paused there; `made` is the entry of a
copy that repeats the log, NULL for others.  `cluster_stream`: declarations as the log has them."""

TRIMMED = "cluster_trimmed"
"""The key of the last entry whose documents may be deleted: no cell is made from entry 1 on."""
LATEST = 1 << 62
"""A number after all entries."""
_COUNTS = "SELECT cell, count(*) FROM state.cluster_member WHERE NOT silent GROUP BY cell"


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
        engine.host.transactions.when_loaded(self._reread)
        self.counts: Mapping[int, int] = {}
        """The number of subscriptions in each cell; replaced with each change."""

    def _reread(self) -> None:
        self._appended = None  # its numbers count changes since the state was loaded
        self.count()

    def first_publisher(self, cells: Sequence[int], snapshots: Mapping[int, int]) -> int:
        """Return the entry of the earliest registration that a cell may have to repeat.

        It is that of a publisher that some of the `cells` lacks, or whose copy is not in the newest
        of the `snapshots` of its cell, by cell.  `LATEST` if there is none.
        """
        store = self._engine.host.transactions.store
        rows = store.fetch(
            "SELECT key, min(entry) FROM state.cluster_member GROUP BY key HAVING count(*) < ?",
            [len(cells)],
        )
        publishers = {one.key for one in self._publishers}
        entries = [entry for key, entry in rows if key in publishers]
        entries += (
            entry
            for cell, made, entry in store.fetch(
                "SELECT cell, made, entry FROM state.cluster_member WHERE made IS NOT NULL"
            )
            if snapshots.get(cell, 0) < made
        )
        return min(entries, default=LATEST)

    def append_changes(self, *more: Control, everywhere: Collection[int] = ()) -> dict[int, int]:
        """Append one entry with all changes since the last one, and `more`; none if there are none.

        Removals come before registrations, as a name may have been used again.  Copies of
        publishers, which were registered earlier, come before edits.  The cells `everywhere` get
        copies of all publishers.  Returns the cells with new histories, and the first document of
        these.
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
                streams, removals = [*self._streams(store)], self._removals(store, coming)
                edits = self._edits(store, coming)
                copies, registrations = self._registrations(
                    state, number, coming, may_read_more=bool(edits), everywhere=everywhere
                )
                controls = [*streams, *removals, *copies, *edits, *registrations, *more]
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

    @property
    def _publishers(self) -> Sequence[Subscription]:
        known = self._engine.host.state.subscriptions
        every = (one for stream in known.published() for one in known.publishers(stream))
        return [one for one in every if one.number not in known.backfills]

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
    ) -> tuple[list[Control], list[Control]]:
        """Return the copies that new and edited subscriptions need, and new registrations."""
        store = state.store
        cells = placements(store)
        new = [one for one in self._subscriptions if one.key not in cells]
        if not (new or may_read_more or everywhere):
            return [], []
        cells.update(self._placed(new, coming))
        needed = needed_copies(self._subscriptions, cells)
        if self._on_grid is not None:
            self._on_grid.widen_copies(needed)
        for one in self._publishers if everywhere else ():
            needed[one.key].update(cell for cell in everywhere if cell != cells[one.key])
        copies, begun = self._copies(state, number, coming, needed)
        if histories := [*(one for one in new if one.since < coming), *begun]:
            self._log.write_history(number, history_documents(state, histories, coming))
        controls: list[Control] = []
        members: list[tuple[object, ...]] = []
        for one in new:
            silent, cell = tuple(sorted(needed.get(one.key, ()))), cells[one.key]
            first, *more = _registered(state, one, coming, cell, silent)
            if self._on_grid is not None and isinstance(first, Register):
                first = self._on_grid.placed(first)
            controls += (first, *more)
            version = one.version, one.is_paused
            members.append((one.key, cell, False, number, *version, None))
            members += ((one.key, other, True, number, *version, None) for other in silent)
        store.insert_rows("state.cluster_member", members)
        return copies, controls

    def _copies(
        self, state: EngineState, number: int, coming: int, needed: Mapping[str, Collection[int]]
    ) -> tuple[list[Control], list[Subscription]]:
        """Return the copies that cells need and lack, and those that read the kept documents.

        A copy repeats the log from the registration of its publisher on.  It reads the kept
        documents instead, as a history does, where the log does not reach back, and where the cell
        has later copies of what the publisher reads.
        """
        store, log = state.store, self._log.shared
        rows = store.fetch("SELECT key, cell, entry FROM state.cluster_member ORDER BY entry DESC")
        entries = {(key, cell): entry for key, cell, entry in rows}
        registered = {key: entry for key, _, entry in rows}  # the earliest one
        is_whole, publishers = not store.meta(TRIMMED), state.subscriptions.publishers
        controls: list[Control] = []
        begun: list[Subscription] = []
        wanted = [one for one in self._publishers if one.key in registered and needed.get(one.key)]
        for one in in_order(state, wanted):
            since, version = registered[one.key], (one.version, one.is_paused)
            for cell in sorted(needed[one.key]):
                if (one.key, cell) in entries:
                    continue
                snapshots = () if is_whole else log.snapshots(cell)
                can_repeat = is_whole or any(entry < since for entry, _ in snapshots)
                for other in (other for stream in one.reads for other in publishers(stream)):
                    entry = entries.get((other.key, cell), since)
                    comes_later = other.number < one.number and entry > since
                    can_repeat &= entry <= registered.get(other.key, entry) and not comes_later
                if can_repeat:
                    controls.append(CopyPublisher(one.key, cell, since))
                    entries[one.key, cell] = since
                    made = number
                else:
                    controls += _registered(state, one, coming, NOWHERE, (cell,))
                    begun += [one] if one.since < coming else []
                    entries[one.key, cell] = number
                    made = None
                row = one.key, cell, True, entries[one.key, cell], *version, made
                store.insert_rows("state.cluster_member", [row])
        return controls, begun


def _registered(
    state: EngineState, one: Subscription, coming: int, cell: int, silent: tuple[int, ...]
) -> Iterator[Control]:
    """Yield the registration of a subscription, and its pause."""
    begun = (one.since, state.documents.clock) if one.since < coming else ()
    asked = one.query, one.language, one.updates, coming, cell, silent
    yield Register(one.key, *asked, *begun)
    if one.is_paused:
        yield Edit(one.key, one.query, one.language, one.updates, True, coming)
