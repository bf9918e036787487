"""Sources of documents: HTTP feeds, files, and the spool.

    fetch ─▶ parse ─┐
    files ──────────┴▶ documents ─▶ spool ─▶ source

Import what you need from the modules; the few names that nearly everyone needs
are here.  Importing this package loads neither Spark nor feedparser.

Architecture: language → 1 shredding → 2 templates → 3 cep_core → delivery; feeds, ingestion
(Spark), service and web around it.
"""

from feeds.documents import Document
from feeds.errors import FeedError, MalformedDocument, NotAFeed

__all__ = ["Document", "FeedError", "MalformedDocument", "NotAFeed"]
