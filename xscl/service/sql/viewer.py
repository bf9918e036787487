"""Whom users' SQL is for; `xscl.store.queries.visible_rows` has the rules of what he sees.

A user's streams and subscriptions are `_7.name` in the engine and `name` for the user with number
7.  A name without an owner prefix is public.  The operator, number 0, sees everything under engine
names.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Viewer:
    """The account whose visibility applies."""

    number: int = 0

    @property
    def everything(self) -> bool:
        return self.number == 0

    @property
    def prefix(self) -> str:
        """Return the owner prefix of the viewer's names."""
        return f"_{int(self.number)}."


OPERATOR = Viewer()
