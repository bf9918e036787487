"""Typed clients of a running service: `Client`, and `AsyncClient` for asyncio.

    with Client("http://127.0.0.1:8425", token) as client:
        client.subscribe("echo", query)
        for match in client.matches("echo"):
            print(match.timestamp, match.documents)

Both have the same methods: `calls` describes each once, as a request and the type of its answer.
An error of the service is raised as the error of the packages, a query's with its place.

    answers     the objects that answers hold
    calls       one function for each call of the HTTP API
    failures    problem documents and broken connections as errors
    events      live matches, and where to go on after a disconnection
    exchange    what both clients share: headers, timeouts, waiting for a busy service
"""

from xscl.client.answers import (
    BlockFound,
    Diagnosis,
    Edge,
    Elements,
    Feed,
    FeedOutcome,
    Health,
    LateDocument,
    ListedDocument,
    Match,
    NearName,
    Node,
    Poll,
    QueryCheck,
    QueryFault,
    RejectedDocument,
    SavedStatement,
    SeenElement,
    SentDocument,
    Source,
    SqlRows,
    Star,
    StarredDocument,
    StatusSample,
    Stopped,
    Stream,
    Subscription,
    SubscriptionTag,
    Trial,
    UnseenName,
    Version,
    Why,
)
from xscl.client.async_client import AsyncClient
from xscl.client.events import LiveEvent
from xscl.client.failures import Refused, Unreachable
from xscl.client.sync_client import Client

__all__ = [
    "AsyncClient",
    "BlockFound",
    "Client",
    "Diagnosis",
    "Edge",
    "Elements",
    "Feed",
    "FeedOutcome",
    "Health",
    "LateDocument",
    "ListedDocument",
    "LiveEvent",
    "Match",
    "NearName",
    "Node",
    "Poll",
    "QueryCheck",
    "QueryFault",
    "Refused",
    "RejectedDocument",
    "SavedStatement",
    "SeenElement",
    "SentDocument",
    "Source",
    "SqlRows",
    "Star",
    "StarredDocument",
    "StatusSample",
    "Stopped",
    "Stream",
    "Subscription",
    "SubscriptionTag",
    "Trial",
    "Unreachable",
    "UnseenName",
    "Version",
    "Why",
]
