"""Names of users' things: how a name of one user is known to the engine.

The engine has one space of names for subscriptions, one for streams and one for documents.  What
belongs to the user number 7 is `_7.name` there; the operator's things (number 0) have their plain
names.  Hence nobody may write a name that begins like that.
"""

from __future__ import annotations

import re

from xscl.errors import XsclError

OPERATOR = 0
"""The number of who runs the service."""

MINE = re.compile(r"_(\d+)\.")
_RESERVED = re.compile(r"^_\d+\.")
_FOREIGN = re.compile(r"(?<![\w.-])_(\d+)\.([^\s'\"<>|/\[\](){},;]*)")


class ReservedName(XsclError):
    """A name begins as only the service's own do."""

    code = "reserved_name"


class BadName(XsclError):
    """A name that cannot stand in an address, so that nobody could ask for what has it."""

    code = "subscription_name"


def refuse_unaddressable(name: str) -> None:
    """Raise BadName for the name of a subscription that no address could have."""
    if "/" in name or name in ("", ".", ".."):
        raise BadName(
            f"{name!r} cannot be the name of a subscription: it stands in addresses",
            hint="choose one without '/'",
        )


def qualified(number: int, name: str) -> str:
    """Return a user's name as the engine knows it; raises ReservedName."""
    refuse_reserved(name)
    return name if number == OPERATOR else f"_{number}.{name}"


def owner(known: str) -> tuple[int, str]:
    """Return whose a name of the engine is, and how its owner calls it."""
    found = _RESERVED.match(known)
    return (OPERATOR, known) if found is None else (int(found[0][1:-1]), known[found.end() :])


def refuse_reserved(name: str) -> None:
    """Raise ReservedName for a name that begins like `_7.`."""
    if _RESERVED.match(name):
        raise ReservedName(
            f"the name {name!r} cannot be used: it begins as the service's own names do",
            hint="leave out the number and the dot at its beginning",
        )


def shown(number: int, text: str) -> str:
    """Return a text of the engine as a user may read it: his own names plain, no one else's."""

    def plain(found: re.Match[str]) -> str:
        return found[2] if int(found[1]) == number else "(another user's)"

    return _FOREIGN.sub(plain, text) if "_" in text else text
