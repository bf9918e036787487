"""Visibility between accounts: none may see anything that bears the mark of another one.

Each document and subscription of an account is named after its mark, and equal keys are used by
all, so that what one sees of another stands in the text of the answer.
"""

from __future__ import annotations

import re

from tests.simulation.model import Account

_MARK = re.compile(r"\b(opm|[uq]\d+m)-")
_OWNED = re.compile(r"(?<![\w.-])_\d+\.\w")
"""A name of the engine, of an object of a user."""


def foreign(account: Account, text: str, asked: str = "") -> list[str]:
    """Return the names of other accounts, or of the engine, that a text shows to a user.

    What the user has `asked` for may be repeated.
    """
    if account.is_operator:
        return []
    known = {account.mark, *_MARK.findall(asked)}
    marks = set(_MARK.findall(text)) - known
    return [*sorted(marks), *sorted(set(_OWNED.findall(text)))]
