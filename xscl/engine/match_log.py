"""The log of matches: the results of all pushes in the order of their positions, and a cursor.

A result is expanded to the matches of its subscribers on reading, on a connection beside the
engine's.  The cursor is the position up to which matches were delivered; it is stored
with the next push, or at once.
"""

from __future__ import annotations

import pyarrow as pa

from xscl.engine.transactions import Transactions
from xscl.store.queries.results import results_since
from xscl.subscriptions.match import Match
from xscl.subscriptions.match_pages import MatchPages
from xscl.subscriptions.matches import Matches, MatchList, MatchSequence


class MatchLog:
    """Reads the results of an engine as matches, and stores the delivery cursor."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._pages = self.new_pages()

    def close(self) -> None:
        """Close the connection.  The caller holds the engine's lock."""
        self._pages.close()

    # -- Reading ---------------------------------------------------------------------------

    def expand(self, rows: pa.Table) -> Matches:
        """Return rows of `state.result` as matches.  The caller holds the engine's lock."""
        subscriptions = self._transactions.state.subscriptions
        by_qid, earlier = subscriptions.by_qid, subscriptions.retired.by_qid
        qids = set(rows["qid"].to_numpy().tolist()) if rows.num_rows else set()
        if earlier.keys().isdisjoint(qids):
            subscribers = {qid: by_qid[qid] for qid in qids if qid in by_qid}
        else:
            found = {qid: [*by_qid.get(qid, ()), *earlier.get(qid, ())] for qid in qids}
            subscribers = {qid: sharers for qid, sharers in found.items() if sharers}
        return self._pages.matches(rows, subscribers)

    def since(self, position: int = 1) -> Matches:
        """Return the kept matches from a position on."""
        with self._transactions.lock:
            return self.expand(results_since(self._transactions.store, position))

    def after(self, last: Match | int | None = None) -> MatchSequence:
        """Return the kept matches after a match, or after all of a position; None: all."""
        with self._transactions.lock:
            position = last.position if isinstance(last, Match) else (last or 0) + 1
            found = self.since(position)
            if not isinstance(last, Match):
                return found
            # A result is the match of all who share it, so the given match may not be its last.
            passed = [m.id for m in found[: found.count_first()] if m.position == position]
            return found[passed.index(last.id) + 1 if last.id in passed else len(passed) :]

    def of(self, name: str, after: int = 0) -> MatchList:
        """Return a subscription's kept matches after a position; raises UnknownSubscription."""
        found, more = list[Match](), True
        while more:
            page = self.pages().of(name, after=after)
            found += page.matches
            after, more = page.end, page.more
        return MatchList(found)

    def pages(self) -> MatchPages:
        """Return the reader of pages of kept matches, which is closed with the engine."""
        return self._pages

    def new_pages(self) -> MatchPages:
        """Return a reader of pages on a new connection; close it before the engine."""
        transactions = self._transactions
        return MatchPages(
            transactions.connect(),
            lambda: transactions.state.subscriptions,
            transactions.compiled,
            lambda doc: transactions.state.documents.recent(doc),
        )

    # -- Delivery --------------------------------------------------------------------------

    def undelivered(self) -> Matches:
        """Return the matches after the cursor: a process may end between commit and delivery.

        The first caller of a store's life has none.
        """
        with self._transactions.lock:
            return self.since(self.begin_delivery() + 1)

    def begin_delivery(self) -> int:
        """Return the cursor; the first caller of a store's life begins with the next match."""
        with self._transactions.lock:
            if self.acknowledged < 0:
                self.acknowledge(durable=True)
            return self.acknowledged

    @property
    def acknowledged(self) -> int:
        """The cursor: the position up to which matches were delivered, below 0 if never."""
        return self._transactions.state.acknowledged

    def acknowledge(self, *, durable: bool = False) -> None:
        """Move the cursor behind all matches; `durable`: store it now, not with the next push."""
        with self._transactions.lock:
            state = self._transactions.state
            state.acknowledged = state.position
            if durable:
                self.save_acknowledged()

    def try_acknowledge(self, position: int) -> None:
        """Move the cursor to a position, unless a change is under way."""
        if self._transactions.lock.acquire(blocking=False):
            try:
                state = self._transactions.state
                state.acknowledged = max(state.acknowledged, position)
            finally:
                self._transactions.lock.release()

    def save_acknowledged(self) -> None:
        """Store the cursor."""
        with self._transactions.lock:
            if self.acknowledged != self._transactions.store.progress("told"):
                with self._transactions.change() as state:
                    state.store.set_progress(told=state.acknowledged)
