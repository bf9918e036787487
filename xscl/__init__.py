"""xscl: subscriptions that join XML documents and feed items across time.

>>> import xscl
>>> engine = xscl.Engine()
>>> engine.subscribe("twice", "S//a->x FOLLOWED BY{x=y, 10} S//a->y")
>>> first, second = (xscl.Document("S", f"d{t}", t, b"<a>hi</a>") for t in (1, 2))
>>> [match.documents for match in engine.push([first, second])]
[('d1', 'd2')]

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from xscl.origins import refuse_shadowed

if TYPE_CHECKING:
    from feeds.documents import Document
    from feeds.errors import MalformedDocument
    from xscl.documents.retention import Retention
    from xscl.engine.facade import Engine
    from xscl.engine.ingest import PushResult
    from xscl.engine.match_log import Page
    from xscl.errors import (
        DocumentError,
        NameTaken,
        QueryError,
        SqlError,
        StoreError,
        StreamInUse,
        TooLong,
        UnknownSubscription,
        XsclError,
    )
    from xscl.inspection.reasons import Diagnosis, Why
    from xscl.store.store_errors import BackupError, StoreInUse
    from xscl.subscriptions.match import Match, Node

__all__ = [
    "BackupError",
    "Diagnosis",
    "Document",
    "DocumentError",
    "Engine",
    "MalformedDocument",
    "Match",
    "NameTaken",
    "Node",
    "Page",
    "PushResult",
    "QueryError",
    "Retention",
    "SqlError",
    "StoreError",
    "StoreInUse",
    "StreamInUse",
    "TooLong",
    "UnknownSubscription",
    "Why",
    "XsclError",
]

_MODULES = {
    "feeds.documents": ("Document",),
    "feeds.errors": ("MalformedDocument",),
    "xscl.engine.facade": ("Engine",),
    "xscl.subscriptions.match": ("Match", "Node"),
    "xscl.engine.match_log": ("Page",),
    "xscl.engine.ingest": ("PushResult",),
    "xscl.documents.retention": ("Retention",),
    "xscl.store.store_errors": ("BackupError", "StoreInUse"),
    "xscl.inspection.diagnosis": ("Diagnosis",),
    "xscl.inspection.why": ("Why",),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a name when it is first asked for: processes that only shred do without the engine."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    refuse_shadowed()
    value = globals()[name] = getattr(import_module(_PLACES.get(name, "xscl.errors")), name)
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
