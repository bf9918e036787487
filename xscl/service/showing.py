"""Views of matches and documents with users' names in place of engine names."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.client import answers
from xscl.delivery.message import row_of, size_of
from xscl.service.accounts import Account
from xscl.subscriptions.match import Match

PAGE_BYTES = 16_000_000
"""Characters of the matches of a page, after which it ends."""


def shown_within(account: Account, matches: Sequence[Match]) -> list[answers.Match]:
    """Return the first matches that fit on a page; the first one at least."""
    shown: list[answers.Match] = []
    left = PAGE_BYTES
    for match in matches:
        row = row_of(match, account.named)
        match.forget()
        left -= size_of(row)
        if left < 0 and shown:
            break
        shown.append(answers.Match.model_validate(row))
    return shown
