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
    from feeds.documents import Document as Document
    from feeds.errors import MalformedDocument as MalformedDocument
    from xscl.documents.retention import Retention as Retention
    from xscl.engine.facade import Engine as Engine
    from xscl.engine.ingest import PushResult as PushResult
    from xscl.engine.match_log import Page as Page
    from xscl.errors import DocumentError as DocumentError
    from xscl.errors import NameTaken as NameTaken
    from xscl.errors import QueryError as QueryError
    from xscl.errors import SqlError as SqlError
    from xscl.errors import StoreError as StoreError
    from xscl.errors import StreamInUse as StreamInUse
    from xscl.errors import TooLong as TooLong
    from xscl.errors import UnknownSubscription as UnknownSubscription
    from xscl.errors import XsclError as XsclError
    from xscl.inspection.reasons import Diagnosis as Diagnosis
    from xscl.inspection.reasons import Why as Why
    from xscl.store.store_errors import BackupError as BackupError
    from xscl.store.store_errors import StoreInUse as StoreInUse
    from xscl.subscriptions.match import Match as Match
    from xscl.subscriptions.match import Node as Node

_MODULES = {
    "feeds.documents": "Document",
    "feeds.errors": "MalformedDocument",
    "xscl.engine.facade": "Engine",
    "xscl.subscriptions.match": "Match Node",
    "xscl.engine.match_log": "Page",
    "xscl.engine.ingest": "PushResult",
    "xscl.documents.retention": "Retention",
    "xscl.store.store_errors": "BackupError StoreInUse",
    "xscl.inspection.diagnosis": "Diagnosis",
    "xscl.inspection.why": "Why",
    "xscl.errors": "DocumentError NameTaken QueryError SqlError StoreError StreamInUse TooLong"
    " UnknownSubscription XsclError",
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_PLACES)


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
