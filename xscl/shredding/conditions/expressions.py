"""Search for the regular expressions of a changing set that match a text.

An expression can match only a text that contains its factor (`xscl.language.regex`).  The factors
of all expressions are found by one automaton; then each candidate is tested.  Expressions without
a factor are tested on every text.
"""

from __future__ import annotations

from xscl.language.regex import RegularExpression, expression
from xscl.shredding.conditions.substrings import SubstringIndex


class ExpressionIndex:
    """A set of regular expressions with the same flags."""

    __slots__ = ("_by_factor", "_factors", "_flags")

    def __init__(self, flags: str) -> None:
        self._flags = flags
        self._factors = SubstringIndex()
        self._by_factor: dict[str, dict[str, RegularExpression]] = {}

    def add(self, pattern: str) -> None:
        """Insert a new expression."""
        compiled = expression(pattern, self._flags)
        known = self._by_factor.setdefault(compiled.factor, {})
        if not known and compiled.factor:
            self._factors.add(compiled.factor)
        known[pattern] = compiled

    def remove(self, pattern: str) -> None:
        """Remove an expression."""
        factor = expression(pattern, self._flags).factor
        known = self._by_factor[factor]
        del known[pattern]
        if not known:
            del self._by_factor[factor]
            if factor:
                self._factors.remove(factor)

    def matching(self, text: str) -> set[str]:
        """Return the expressions that match a text."""
        factors = self._factors.within(text.casefold()) if len(self._factors) else set()
        if "" in self._by_factor:
            factors = {*factors, ""}
        if not factors:
            return set()
        encoded = text.encode()
        return {
            pattern
            for factor in factors
            for pattern, compiled in self._by_factor[factor].items()
            if compiled.within_bytes(encoded)
        }
