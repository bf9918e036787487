"""The limits of a user, and what is used of them, for pages."""

from __future__ import annotations

from dataclasses import dataclass

from xscl.plurals import counted
from xscl.service.routes.tokens import User_

_USED = {
    "documents_a_day": "documents_today",
    "bytes_a_day": "bytes_today",
    "matches_a_day": "matches_today",
    "mails_a_day": "mails_today",
}
"""The names of usage that differ from those of their limits."""


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A limit of a user, in words, and what is used of it; None is no limit, or not counted."""

    name: str
    limit: int | None
    used: int | None

    @property
    def words(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")

    @property
    def used_in_words(self) -> str:
        """The usage with its noun: `1 subscription`, `2 matches today`."""
        names, a_day, _ = self.words.partition(" a day")
        noun = names.removesuffix("es" if names == "matches" else "s")
        return counted(self.used or 0, noun) + (" today" if a_day else "")

    @property
    def is_full(self) -> bool:
        """True if nothing is left of the limit."""
        return self.limit is not None and self.used is not None and self.used >= self.limit


def quota_rows(user: User_) -> list[QuotaRow]:
    """Return the limits of a user, in the order of the API."""
    used = user.used.model_dump()
    return [
        QuotaRow(name, limit, used.get(_USED.get(name, name)))
        for name, limit in user.quota.model_dump().items()
    ]
