"""Who asks, and what of all that is kept he may see.

What belongs to a user has his number before its name: streams and subscriptions are `_7.name` in
the engine and `name` for him.  A name without a number is public.  The operator, number 0, sees
everything under the names of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass

_PRIVATE = r"^_[0-9]+\."


@dataclass(frozen=True, slots=True)
class Viewer:
    """An account, as far as seeing goes."""

    number: int = 0

    @property
    def everything(self) -> bool:
        return self.number == 0

    @property
    def prefix(self) -> str:
        """What the names of one's own things begin with."""
        return f"_{int(self.number)}."

    # -- In SQL ----------------------------------------------------------------------------

    def visible(self, stream: str) -> str:
        """Return the condition that a stream may be seen, given an expression for its name."""
        if self.everything:
            return "true"
        return (
            f"(starts_with({stream}, '{self.prefix}') OR NOT regexp_matches({stream},"
            f" '{_PRIVATE}'))"
        )

    def own(self, name: str) -> str:
        """Return the condition that something is one's own, given an expression for its name."""
        return "true" if self.everything else f"starts_with({name}, '{self.prefix}')"

    def shown(self, name: str) -> str:
        """Return an expression for a name as its owner has written it."""
        if self.everything:
            return name
        return (
            f"(CASE WHEN starts_with({name}, '{self.prefix}')"
            f" THEN {name}[{len(self.prefix) + 1}:] ELSE {name} END)"
        )


OPERATOR = Viewer()
