"""Changes of the driver's catalog as controls of the log.

The driver's engine has the catalog: names, queries, streams, all checks.  The table
`state.cluster_member` has what the log says of it.  A change is committed to the catalog first and
appended to the log second: edits, pauses and removals at once, registrations and declarations
before the next documents.  A driver that crashes between the two appends it at its next start,
before it sequences another document, so its position in the log is the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from feeds.faultpoints import reached
from templates.model.relations import INFINITE
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
from xscl.cluster.kept_past import (
    in_order,
    kept_documents,
    longest_window,
    obstacles,
    oldest_needed,
)
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
CREATE TABLE IF NOT EXISTS state.cluster_stream(
    name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN, attributes VARCHAR);
"""
"""`cluster_member`: the cells of subscriptions by key, where copies are silent, the entry of the
registration, the version that the log has, and whether it is paused there.  `cluster_stream`:
declarations as the log has them."""


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
        self._window: int | None = None  # the longest finite one of a publisher
        self.counts: Mapping[int, int] = {}
        """The number of subscriptions in each cell; replaced with each change."""

    def first_publisher(self, cells: int) -> int:
        """Return the entry of the earliest registration that a cell may have to repeat.

        It is that of a publisher of which some cell lacks a copy, and whose state does not follow
        from the documents in a window.  `LATEST` if there is none.
        """
        rows = self._engine.host.transactions.store.fetch(
            "SELECT key, min(entry) FROM state.cluster_member GROUP BY key HAVING count(*) < ?",
            [cells],
        )
        state = self._engine.host.state
        publishers = {one.key for one in self._publishers if longest_window(state, one) >= INFINITE}
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
            state = self._engine.host.state
            windows = [longest_window(state, one) for one in self._publishers]
            self._window = max((one for one in windows if one < INFINITE), default=None)

    def needed_by_copies(self, state: EngineState) -> int:
        """Return the first document of which a later copy of a publisher may need the text."""
        documents = state.documents
        if self._window is None:
            return documents.next
        ((first,),) = state.store.fetch(
            "SELECT min(doc) FROM state.document WHERE ts >= ?", [documents.clock - self._window]
        )
        return documents.next if first is None else int(first)

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
    ) -> list[Control]:
        """Return new registrations, and the copies that these and edited subscriptions need."""
        store = state.store
        cells = placements(store)
        new = [one for one in self._subscriptions if one.key not in cells]
        if not (new or may_read_more or everywhere):
            return []
        cells.update(self._placed(new, coming))
        rows = store.fetch("SELECT key, cell, entry FROM state.cluster_member ORDER BY entry DESC")
        known = {(key, cell) for key, cell, _ in rows}
        registered = {key: entry for key, _, entry in rows}  # the earliest one
        needed = needed_copies(self._subscriptions, cells)
        if self._on_grid is not None:
            self._on_grid.widen_copies(needed)
        for one in self._publishers if everywhere else ():
            needed[one.key].update(cell for cell in everywhere if cell != cells[one.key])
        copies = [
            _Copy(one, registered[one.key], sorted(missing))
            for one in in_order(state, self._publishers)
            if one.key in registered
            and (missing := [cell for cell in needed[one.key] if (one.key, cell) not in known])
        ]
        with_past = self._with_a_past(state, copies)
        histories = [one for one in new if one.since < coming]
        begun = [one for one, *_ in copies if one.key in with_past and one.since < coming]
        if histories or begun:
            oldest = -INFINITE if histories else min(oldest_needed(state, one) for one in begun)
            documents = kept_documents(state, [*histories, *begun], coming, oldest)
            self._log.write_history(number, documents)
        controls: list[Control] = []
        members: list[tuple[str, int, bool, int, int, bool]] = []
        for one, entry, lacking in copies:
            version = one.version, one.is_paused
            if one.key in with_past:
                controls += _registered(state, one, coming, NOWHERE, tuple(lacking))
                members += ((one.key, cell, True, number, *version) for cell in lacking)
            else:
                controls += (CopyPublisher(one.key, cell, entry) for cell in lacking)
                members += ((one.key, cell, True, entry, *version) for cell in lacking)
        for one in new:
            silent, cell = tuple(sorted(needed.get(one.key, ()))), cells[one.key]
            first, *more = _registered(state, one, coming, cell, silent)
            if self._on_grid is not None and isinstance(first, Register):
                first = self._on_grid.placed(first)
            controls += (first, *more)
            version = one.version, one.is_paused
            members.append((one.key, cell, False, number, *version))
            members += ((one.key, other, True, number, *version) for other in silent)
        store.insert_rows("state.cluster_member", members)
        return controls

    def _with_a_past(self, state: EngineState, copies: Sequence[_Copy]) -> set[str]:
        """Return the keys of publishers whose copies read the kept documents, as a history does.

        A copy of any other one repeats the log from its registration on.
        """
        if not copies:
            return set()
        obstacle = obstacles(state)
        return {
            one.key
            for one, entry, cells in copies
            if not all(self._can_repeat(state.store, cell, entry) for cell in cells)
            or (longest_window(state, one) < INFINITE and obstacle(one) is None)
        }

    def _can_repeat(self, store: Store, cell: int, entry: int) -> bool:
        """Return whether a cell can be made from before an entry."""
        snapshots = self._log.shared.snapshots(cell)
        return not store.meta(TRIMMED) or any(number < entry for number, _ in snapshots)


class _Copy(NamedTuple):
    """A publisher, the entry of its registration, and the cells that lack it."""

    publisher: Subscription
    entry: int
    cells: Sequence[int]


def _registered(
    state: EngineState, one: Subscription, coming: int, cell: int, silent: tuple[int, ...]
) -> Iterator[Control]:
    """Yield the registration of a subscription, and its pause."""
    begun = (one.since, state.documents.clock) if one.since < coming else ()
    asked = one.query, one.language, one.updates, coming, cell, silent
    yield Register(one.key, *asked, *begun)
    if one.is_paused:
        yield Edit(one.key, one.query, one.language, one.updates, True, coming)
