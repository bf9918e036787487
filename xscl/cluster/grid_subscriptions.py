"""The subscriptions of the grid, as the driver knows them: groups, designated joins, routes.

A change is written with the transaction that appends it to the log, and takes effect after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xscl.cluster.controls import Register
from xscl.cluster.designated_joins import Designate, Designated, Designation, equalities
from xscl.cluster.document_routing import SAMPLE, Router, kept_values
from xscl.cluster.grid import Grid
from xscl.documents.results import Subscription
from xscl.engine.host import EngineHost
from xscl.store.store import Store

SCHEMA = """
CREATE TABLE IF NOT EXISTS state.cluster_designated(
    key VARCHAR, cell INTEGER, first VARCHAR, second VARCHAR);
"""
"""The group of each subscription of the grid, and its designated join by definitions."""


class GridSubscriptions:
    """Decides which subscriptions lie on the grid.  The engine's lock guards it."""

    def __init__(self, grid: Grid, host: EngineHost, designate: Designate | None = None) -> None:
        self.grid = grid
        self._host = host
        self._known: dict[str, Designated] = {}
        self.router = Router(grid)
        with host.transactions.change() as state:
            state.store.connection.execute(SCHEMA)
            self._read()
        host.transactions.when_loaded(self._read)
        self._designate = designate or Designation(grid, self._rarity, self._known.values())
        self._counted = 0  # the documents that there had been when `_shares` were counted
        self._shares: dict[tuple[str, str], float] = {}
        self._new: dict[str, Designated] = {}
        self._gone: set[str] = set()

    def _read(self) -> None:
        """Route the documents of those subscriptions that the store has."""
        rows = self._host.transactions.store.fetch("FROM state.cluster_designated")
        known = {key: Designated(*row) for key, *row in rows}
        self.router.remove(one for key, one in self._known.items() if known.get(key) != one)
        self.router.add(one for key, one in known.items() if self._known.get(key) != one)
        self._known = known

    def _rarity(self, pairs: Sequence[tuple[str, str]]) -> Sequence[float]:
        """Return the share of equal values of pairs of paths, counted again after some documents.

        Many registrations ask for the same pairs.
        """
        coming = self._host.state.documents.coming
        if coming >= min(2 * self._counted, self._counted + SAMPLE):
            self._counted, self._shares = coming, {}
        if missing := [pair for pair in pairs if pair not in self._shares]:
            shares = kept_values(self._host.transactions.store, missing)
            self._shares.update(zip(missing, shares, strict=True))
        return [self._shares[pair] for pair in pairs]

    def begin(self) -> None:
        """Begin a change; what an earlier one has not ended is forgotten."""
        self._new, self._gone = {}, set()

    def place(self, one: Subscription, published: frozenset[str]) -> int | None:
        """Return the group of a new subscription by its first cell, None for a slice.

        What reads a published stream begins in a slice, so that few cells have copies.
        """
        if not published.isdisjoint(one.reads):
            return None
        chosen = self._designate(one, equalities(self._host.state.registry, one))
        if chosen is None:
            return None
        self._new[one.key] = chosen
        return chosen.cell

    def edited(self, some: Iterable[Subscription], coming: int) -> list[str]:
        """Return the keys of those edited ones that begin anew, wherever they belong now."""
        return [one.key for one in some if one.key in self._known and one.since >= coming]

    def remove(self, keys: Iterable[str]) -> None:
        """Remove those of some subscriptions that are on the grid."""
        self._gone.update(key for key in keys if key in self._known)

    def placed(self, given: Register) -> Register:
        """Return the registration of a new subscription with its place on the grid, if any."""
        if (one := self._new.get(given.key)) is None:
            return given
        return replace(given, width=self.grid.width, by=(one.first, one.second))

    def widen_copies(self, copies: Mapping[str, set[int]]) -> None:
        """Add copies of publishers to all cells of each group that has one in some cell."""
        for cells in copies.values():
            cells.update(*(self.grid.cells_of(cell) for cell in cells))

    def save(self, store: Store) -> None:
        """Write the change, in the transaction of the log."""
        for key in self._gone:
            store.fetch("DELETE FROM state.cluster_designated WHERE key = ?", [key])
        rows = [(key, *one) for key, one in self._new.items()]
        store.insert_rows("state.cluster_designated", rows)

    def apply(self) -> None:
        """Apply the change to routes and designations, after its transaction has committed."""
        self.router.remove(self._known.pop(key) for key in self._gone)
        self.router.add(self._new.values())
        self._known.update(self._new)
        self.begin()

    def among(self, qids: Iterable[int]) -> list[int]:
        """Return those rows of R_T that subscriptions of the grid use."""
        by_qid = self._host.state.subscriptions.by_qid
        return [qid for qid in qids if any(one.key in self._known for one in by_qid.get(qid, ()))]
