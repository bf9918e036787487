"""xscl: subscriptions that join XML documents and feed items across time.

>>> import xscl
>>> engine = xscl.Engine()
>>> engine.subscribe("twice", "S//a->x FOLLOWED BY{x=y, 10} S//a->y")
>>> first, second = (xscl.Document("S", f"d{t}", t, b"<a>hi</a>") for t in (1, 2))
>>> [match.documents for match in engine.push([first, second])]
[('d1', 'd2')]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from xscl.origins import refuse_shadowed

if TYPE_CHECKING:
    from feeds.documents import Document
    from xscl.engine import Engine
    from xscl.errors import QueryError, XsclError
    from xscl.match import Match, Node
    from xscl.retention import Retention

__all__ = ["Document", "Engine", "Match", "Node", "QueryError", "Retention", "XsclError"]

_PLACES = {
    "Document": "feeds.documents",
    "Engine": "xscl.engine",
    "Match": "xscl.match",
    "Node": "xscl.match",
    "QueryError": "xscl.errors",
    "Retention": "xscl.retention",
    "XsclError": "xscl.errors",
}


def __getattr__(name: str) -> object:
    """Load a name when it is first asked for: processes that only shred do without the engine."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    refuse_shadowed()
    value = globals()[name] = getattr(import_module(_PLACES[name]), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
