"""The components of an engine, for the service: ingestion, delivery and the web."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from xscl.engine.catalog import Catalog
from xscl.engine.ingest import Ingest
from xscl.engine.match_log import MatchLog
from xscl.engine.queries import Queries
from xscl.engine.state import EngineState, Settings
from xscl.engine.transactions import Transactions
from xscl.engine.trials import Trials
from xscl.store.store import Store


class EngineHost:
    """An engine put together: each component reads the state that `transactions` holds.

    It may change between releases; `Engine` is the stable interface.
    """

    def __init__(self, path: str | Path | None, settings: Settings) -> None:
        self.transactions = Transactions(path, settings)
        with ExitStack() as opened:
            opened.callback(self.transactions.close)
            self.log = MatchLog(self.transactions)
            opened.callback(self.log.close)
            self.ingest = Ingest(self.transactions, self.log)
            self.trials = Trials(self.transactions)
            self.catalog = Catalog(self.transactions)
            self.queries = Queries(self.transactions, self.trials, self.log)
            opened.pop_all()

    @property
    def state(self) -> EngineState:
        """The state as of the last commit; another object after a failed transaction."""
        return self.transactions.state

    def refused(self, name: str) -> str | None:
        """Return why this release refuses the stored query of a subscription; None if it does not.

        A subscription that an earlier release took has then no results.  It can be edited,
        exported and removed.
        """
        found = self.state.subscriptions.refusal(self.state.subscriptions[name])
        return None if found is None else str(found)

    def connect(self) -> Store:
        """Return the store on a new connection, for tables beside the engine's; close it before."""
        return self.transactions.connect()

    def close(self) -> None:
        """Close all components, the store last."""
        with self.transactions.lock:
            try:
                self.log.close()
            finally:
                self.transactions.close()
