"""Changes of the driver's catalog as controls of the log.

The driver's engine has the catalog: names, queries, streams, all checks.  The table
`state.cluster_member` has what the log says of it.  A change is committed to the
catalog first and appended to the log second.  A driver that crashes between the two appends it at
its next start, before it sequences another document, so its position in the log is the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from xscl.cluster.placement import Choose, needed_copies
from xscl.cluster.sealed_log import (
    Control,
    CopyPublisher,
    DeclareStream,
    Edit,
    Register,
    Remove,
    SealedLog,
)
from xscl.cluster.sequencer import SEQUENCED
from xscl.engine.facade import Engine
from xscl.store.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_member(
    name VARCHAR, cell INTEGER, silent BOOLEAN, entry BIGINT);
ALTER TABLE state.cluster_member ADD COLUMN IF NOT EXISTS version INTEGER DEFAULT 1;
ALTER TABLE state.cluster_member ADD COLUMN IF NOT EXISTS paused BOOLEAN DEFAULT false;
CREATE TABLE IF NOT EXISTS state.cluster_stream(
    name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN, attributes VARCHAR);
"""
"""`cluster_member`: the cells of subscriptions, where copies are silent, the entry of the
registration, the version that the log has, and whether it is paused there.  `cluster_stream`:
declarations as the log has them."""


def placements(store: Store) -> dict[str, int]:
    """Return the cell in which each subscription was placed, by its name."""
    return dict(store.fetch("SELECT name, cell FROM state.cluster_member WHERE NOT silent"))


class CatalogLog:
    """Appends what has changed in a catalog to the log.  One thread uses it."""

    def __init__(self, engine: Engine, log: SealedLog, choose: Choose) -> None:
        self._engine = engine
        self._log = log
        self._choose = choose

    def append_changes(self, *more: Control) -> None:
        """Append one entry with all changes since the last one, and `more`; none if there are none.

        Removals come before registrations, as a name may have been used again.
        """
        with self._engine.host.transactions.change() as state:
            store = state.store
            number = store.meta(SEQUENCED) + 1
            controls: list[Control] = [*self._streams(store), *self._removals(store)]
            edits = self._edits(store)
            controls += edits
            controls += self._registrations(store, number, may_read_more=bool(edits))
            controls += more
            if controls:
                self._log.write(number, tuple(controls))
                store.set_meta(**{SEQUENCED: number})

    def _streams(self, store: Store) -> Iterable[DeclareStream]:
        columns = "name, lateness, live, attributes"
        new = store.fetch(
            f"SELECT {columns} FROM state.stream EXCEPT SELECT {columns} FROM state.cluster_stream"
            " ORDER BY name"
        )
        for name, lateness, live, attributes in new:
            store.fetch("DELETE FROM state.cluster_stream WHERE name = ?", [name])
            store.insert_rows("state.cluster_stream", [(name, lateness, live, attributes)])
            yield DeclareStream(name, lateness, live, self._engine.attributes(name))

    def _removals(self, store: Store) -> list[Remove]:
        names = {one.name for one in self._engine.subscriptions}
        gone = [name for name in placements(store) if name not in names]
        for name in gone:
            store.fetch("DELETE FROM state.cluster_member WHERE name = ?", [name])
        return [Remove(name) for name in gone]

    def _edits(self, store: Store) -> list[Edit]:
        """Return the versions and pauses that the log does not have yet."""
        rows = store.fetch(
            "SELECT name, version, paused FROM state.cluster_member WHERE NOT silent"
        )
        known = {name: (version, paused) for name, version, paused in rows}
        edited = [
            one
            for one in self._engine.subscriptions
            if known.get(one.name, (one.version, one.is_paused)) != (one.version, one.is_paused)
        ]
        for one in edited:
            store.fetch(
                "UPDATE state.cluster_member SET version = ?, paused = ? WHERE name = ?",
                [one.version, one.is_paused, one.name],
            )
        return [
            Edit(one.name, one.query, one.language, one.updates, one.is_paused) for one in edited
        ]

    def _registrations(self, store: Store, number: int, *, may_read_more: bool) -> list[Control]:
        """Return new registrations, and the copies that these and edited subscriptions need."""
        cells = placements(store)
        new = [one for one in self._engine.subscriptions if one.name not in cells]
        if not (new or may_read_more):
            return []
        cells.update((one.name, self._choose(one)) for one in new)
        rows = store.fetch("SELECT name, cell, entry FROM state.cluster_member")
        known = {(name, cell): entry for name, cell, entry in rows}
        registered = {name: entry for name, _, entry in rows}
        copies = needed_copies(self._engine.subscriptions, cells)
        controls: list[Control] = []
        members: list[tuple[str, int, bool, int, int, bool]] = []
        for one in new:
            silent = tuple(sorted(copies.get(one.name, ())))
            cell = cells[one.name]
            controls.append(Register(one.name, one.query, one.language, one.updates, cell, silent))
            state = one.version, one.is_paused
            members.append((one.name, cell, False, number, *state))
            members += ((one.name, other, True, number, *state) for other in silent)
        states = {one.name: (one.version, one.is_paused) for one in self._engine.subscriptions}
        for name in sorted(copies.keys() & registered.keys()):
            for cell in sorted(copies[name]):
                if (name, cell) not in known:
                    controls.append(CopyPublisher(name, cell, registered[name]))
                    members.append((name, cell, True, registered[name], *states[name]))
        store.insert_rows("state.cluster_member", members)
        return controls
