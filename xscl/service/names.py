"""Namespaces of users: the mapping between a user's names and the engine's.

The engine has one namespace each for subscriptions, streams and documents.  An object `name` of the
user with number 7 is `_7.name` there; the operator's objects (number 0) have plain names.  Names
that begin with such a prefix are therefore reserved.
"""

from __future__ import annotations

import re

from xscl.errors import WrongSubscriptionName, XsclError
from xscl.language.names import LONGEST_NAME, in_short, owner_name, owner_number, owner_prefix
from xscl.store.queries.owners import OPERATOR

MINE = re.compile(r"_(\d+)\.")
_FOREIGN = re.compile(r"(?<![\w.-])_(\d+)\.([^\s'\"<>|/\[\](){},;]*)")


class ReservedName(XsclError):
    """A name begins with an owner prefix, which is reserved."""

    code = "reserved_name"


def refuse_unaddressable(name: str) -> None:
    """Raise WrongSubscriptionName for a name that is too long or cannot be a part of a URL path."""
    if len(name) > LONGEST_NAME:
        raise WrongSubscriptionName(
            f"{in_short(name)} cannot be the name of a subscription:"
            f" it has {len(name):,} characters",
            hint=f"choose one of at most {LONGEST_NAME}",
        )
    if "/" in name or name in ("", ".", ".."):
        raise WrongSubscriptionName(
            f"{name!r} cannot be the name of a subscription: it stands in addresses",
            hint="choose one without '/', and not '.' or '..'",
        )


def qualified(number: int, name: str) -> str:
    """Return the engine's name for a user's object; raises ReservedName."""
    refuse_reserved(name)
    return name if number == OPERATOR else f"_{number}.{name}"


def owner(known: str) -> tuple[int, str]:
    """Split an engine name into the owner's account number and the name without the prefix."""
    return owner_number(known), owner_name(known)


def refuse_reserved(name: str) -> None:
    """Raise ReservedName for a name with an owner prefix such as `_7.`."""
    if owner_prefix(name):
        raise ReservedName(
            f"the name {name!r} cannot be used: it begins as the service's own names do",
            hint="leave out the number and the dot at its beginning",
        )


def shown(number: int, text: str) -> str:
    """Rewrite engine names in a text: the user's own become plain, other users' are hidden."""

    def plain(found: re.Match[str]) -> str:
        if int(found[1]) == number:
            return found[2]
        return found[0] if int(found[1]) == OPERATOR else "(another user's)"

    return _FOREIGN.sub(plain, text) if "_" in text else text
