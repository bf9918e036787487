"""xscl: subscriptions that join XML documents and feed items across time.

>>> import xscl
>>> engine = xscl.Engine()
>>> engine.subscribe("twice", "S//a->x FOLLOWED BY{x=y, 10} S//a->y")
>>> first, second = (xscl.Document("S", f"d{t}", t, b"<a>hi</a>") for t in (1, 2))
>>> [match.documents for match in engine.push([first, second])]
[('d1', 'd2')]
"""

from feeds.documents import Document
from xscl.engine import Engine
from xscl.errors import QueryError, XsclError
from xscl.match import Match, Node
from xscl.retention import Retention

__all__ = ["Document", "Engine", "Match", "Node", "QueryError", "Retention", "XsclError"]
