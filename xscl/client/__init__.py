"""Typed clients of a running service: `Client`, and `AsyncClient` for asyncio.

    with Client("http://127.0.0.1:8425", token) as client:
        client.subscribe("echo", query)
        for match in client.matches("echo"):
            print(match.timestamp, match.documents)

Both have the same methods: `calls` describes each once, as a request and the type of its answer.
An error of the service is raised as the error of the packages, a query's with its place.

    answers     the objects that answers hold, pydantic models that the routes share;
                service_answers: those about documents, streams, feeds and the service
    calls       one function for each call of the HTTP API; `methods` binds them to both clients
    failures    problem documents and broken connections as errors
    events      live matches, and where to go on after a disconnection
    async_client, sync_client: headers, timeouts, waiting for a busy service
"""

from xscl.client.answers import (
    BlockFound,
    Diagnosis,
    Edge,
    Match,
    NearName,
    Node,
    NotEvaluatedIn,
    QueryCheck,
    QueryFault,
    Registered,
    Source,
    Star,
    StarredDocument,
    Stopped,
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
from xscl.client.service_answers import (
    Elements,
    Feed,
    FeedOutcome,
    FeedsPolled,
    Health,
    LateDocument,
    ListedDocument,
    ListedStream,
    MadeStream,
    Poll,
    Reading,
    ReadMark,
    RejectedDocument,
    SavedStatement,
    SeenElement,
    SentDocument,
    SqlColumn,
    SqlRows,
    StatusSample,
    Stream,
)
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
    "FeedsPolled",
    "Health",
    "LateDocument",
    "ListedDocument",
    "ListedStream",
    "LiveEvent",
    "MadeStream",
    "Match",
    "NearName",
    "Node",
    "NotEvaluatedIn",
    "Poll",
    "QueryCheck",
    "QueryFault",
    "ReadMark",
    "Reading",
    "Refused",
    "Registered",
    "RejectedDocument",
    "SavedStatement",
    "SeenElement",
    "SentDocument",
    "Source",
    "SqlColumn",
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
