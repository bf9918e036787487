"""Visibility rules of users' SQL, as SQL conditions.

A user's streams and subscriptions are `_7.name` in the engine and `name` for the user with number
7.  A name without an owner prefix is public.  The operator, number 0, sees everything under engine
names.
"""

from __future__ import annotations

from dataclasses import dataclass

_PRIVATE = r"^_[0-9]+\."


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

    # -- SQL -------------------------------------------------------------------------------

    def visible(self, stream: str) -> str:
        """Return the SQL condition that a stream is visible, for an expression of its name."""
        if self.everything:
            return "true"
        return (
            f"(starts_with({stream}, '{self.prefix}') OR NOT regexp_matches({stream},"
            f" '{_PRIVATE}'))"
        )

    def own(self, name: str) -> str:
        """Return the SQL condition that an object is the viewer's, by its name's expression."""
        return "true" if self.everything else f"starts_with({name}, '{self.prefix}')"

    def shown(self, name: str) -> str:
        """Return the SQL expression of the owner's name."""
        if self.everything:
            return name
        return (
            f"(CASE WHEN starts_with({name}, '{self.prefix}')"
            f" THEN {name}[{len(self.prefix) + 1}:] ELSE {name} END)"
        )

    def called(self, name: str) -> str:
        """Return the SQL expression of the viewer's name of a document (`Account.named`)."""
        if self.everything:
            return name
        hidden = f"SELECT name FROM state.owned_stream WHERE account = {int(self.number)}"
        return (
            f"(CASE WHEN contains({name}, '/') AND split_part({name}, '/', 1) IN ({hidden})"
            f" THEN '_0.' || {name} ELSE {self.shown(name)} END)"
        )


OPERATOR = Viewer()
