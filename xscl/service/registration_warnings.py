"""Warnings about a query that is registered, those of `xscl subscribe`."""

from __future__ import annotations

from xscl.engine.facade import Engine
from xscl.inspection.vocabulary import CachedReading, reused
from xscl.language.constants import TextShape, split
from xscl.service.accounts import Account
from xscl.service.resolving import Resolver

WARNING = "warning: "
"""The beginning of a line of an explanation that is a warning."""


class RegistrationWarnings:
    """The warnings of queries; those of one shape are found once while nothing arrives.

    They are the names that were never seen, and the warnings of the explanation.
    """

    def __init__(self, engine: Engine, resolver: Resolver) -> None:
        self._engine = engine
        self._resolver = resolver
        self._shapes: dict[tuple[int, TextShape], CachedReading[list[str]]] = {}

    def of(self, account: Account, query: str) -> list[str]:
        """Return the warnings of a user's query in XSCL; raises QueryError."""
        cut = split(query)
        if cut is None:
            return self._found(account, query)
        key = account.number, cut[0]
        return reused(self._shapes, key, self._arrived, lambda: self._found(account, query))

    @property
    def _arrived(self) -> int:
        return self._engine.state.documents.next

    def _found(self, account: Account, query: str) -> list[str]:
        queries = self._engine.queries
        seen = queries.unseen_names(query, account.visible)
        names = [one for one in seen if one.kind != "comparison"]
        unknown = [f"the stream {one.name!r} yet" for one in names if one.kind == "stream"]
        resolved = self._resolver.resolve(account, query).text
        explained = account.shown(queries.explain(resolved, seen=lambda _: False)).splitlines()
        warnings = [line.removeprefix(WARNING) for line in explained if line.startswith(WARNING)]
        return [
            *(f"{one.message}: {one.hint}" if one.hint else one.message for one in names),
            *(line for line in warnings if not line.endswith(tuple(unknown))),
        ]
