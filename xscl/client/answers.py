"""The objects that answers of the HTTP API hold: subscriptions, matches and questions.

Routes make them and clients read them.  What they do not declare is left out, so that a service may
be newer than its client.  The docstring after a field is its description in the OpenAPI document.
"""

from typing import Literal, TypeAlias

from pydantic import Field

from xscl.client.bodies import Answer, Moment, ticks_of

History: TypeAlias = Literal["none", "reading", "read", "failed"]

QUERY = "feeds//item->a[./title->t] JOIN{t=u, 2 d} feeds//item->b[./title->u]"
"""The query of examples."""


class Node(Answer):
    """A node that a variable is bound to."""

    document: str = Field(examples=["orders/17"])
    """The name of its document."""
    node: int = Field(examples=[2])
    """Its number in the document."""
    path: str = Field(examples=["/order[1]/item[1]"])
    """Its location."""
    value: str = Field(examples=["a12"])
    """Its string value."""


class DocumentShown(Answer):
    """A document for people: its name, and title and address as far as it has them."""

    document: str = Field(examples=["orders/17"])
    """Its name, which no other document has."""
    stream: str = Field(examples=["orders"])
    """The stream that it was sent to."""
    id: str = Field(examples=["17"])
    """The id that it was sent with."""
    version: int = Field(examples=[1])
    """Its version: 1 for the first document with its id on its stream."""
    root: str = Field(examples=["order"])
    """The name of its root element."""
    title: str = Field(examples=["Ferry stops"])
    """Its title, or nothing; of a starred match the value that stands for it."""
    url: str | None = Field(examples=["https://example.org/ferry"])
    """Its web address."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Its time."""


class Source(DocumentShown):
    """A document of a match."""

    source: str = Field(examples=["example.org"])
    """The host of its publisher, or nothing."""
    feed_title: str = Field("", examples=["News"])
    """Your name for its feed, or the title that the feed has."""

    @property
    def ts(self) -> int:
        """Its time in microseconds since 1970."""
        return ticks_of(self.timestamp)


class Match(Answer):
    """A match: the same object over HTTP, in deliveries and from the command line."""

    id: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """A stable name: 32 hexadecimal digits."""
    match: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """The same as `id`."""
    subscription: str = Field(examples=["echo"])
    """The name of the subscription."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which the match is complete."""
    started: Moment = Field(examples=["2026-03-01T11:00:00Z"])
    """Time of the first document."""
    history: bool = Field(examples=[False])
    """True if all documents are items from before their feeds were followed."""
    backfilled: bool = Field(examples=[False])
    """True if it is from before its subscription was made."""
    position: int = Field(examples=[17])
    """Position in the order of all results; of a trial, in the order of its own."""
    version: int = Field(examples=[1])
    """The version of the subscription's query that found it: an edit begins the next one."""
    documents: tuple[str, ...] = Field(examples=[["17", "4"]])
    """The ids that the documents were sent with, in the order of the query's blocks; `17@2` for a
    second version."""
    sources: tuple[Source, ...]
    """The documents with stream, title, address and time; none of a row of events."""
    t0: int = Field(examples=[1772366400000000])
    """`started` in microseconds since 1970."""
    t1: int = Field(examples=[1772370000000000])
    """`timestamp` in microseconds since 1970."""
    bindings: dict[str, tuple[Node, ...]]
    """Nodes bound to each variable of the query."""
    xml: str = Field(examples=["<result>...</result>"])
    """The output document."""
    absence: str = Field("", examples=["nothing of invoices that fits came within 2 d"])
    """The documents that did not come in time; empty if all did."""
    constructed: bool = Field(examples=[False])
    """True if the query constructs the output document."""

    @property
    def values(self) -> dict[str, tuple[str, ...]]:
        """The string values of the nodes of each variable."""
        return {name: tuple(node.value for node in nodes) for name, nodes in self.bindings.items()}


class Version(Answer):
    """A query that has found kept matches of a name, or its current one."""

    name: str = Field(examples=["echo"])
    """The name of the subscription."""
    version: int = Field(examples=[1])
    """Its number; a pause divides a version in two."""
    query: str = Field(examples=[QUERY])
    """The query."""
    language: str = Field(examples=["xscl"])
    """The language of the query."""
    after: int = Field(examples=[0])
    """Position after which its matches are."""
    until: int | None = Field(examples=[17])
    """Position of its last possible match; null if it is current and not paused."""


class Stopped(Answer):
    """Documents with more results of one join of the subscription than the bound of results."""

    documents: int = Field(examples=[1])
    """Number of such documents."""
    results: int = Field(examples=[10_000])
    """The bound: each had more results, of which none is kept."""
    incomplete: bool = Field(examples=[False])
    """True if a temporal operator lacks the rows of these documents."""


class NotEvaluatedIn(Answer):
    """An expression of the subscription that had no value in some documents: it did not hold."""

    expression: str = Field(examples=["xs:integer(price) > 3"])
    """The expression."""
    documents: int = Field(examples=[1])
    """Number of such documents since the service was started."""
    latest: str = Field(examples=["d17"])
    """The id of the last one."""
    reason: str = Field(examples=["'q' is no xs:integer"])
    """Why it had no value there."""


class Subscription(Answer):
    """A subscription, in its owner's notation."""

    name: str = Field(examples=["echo"])
    """Its name."""
    query: str = Field(examples=[QUERY])
    """The query."""
    language: str = Field(examples=["xscl"])
    """The language of the query."""
    reads: tuple[str, ...] = Field(examples=[["feeds"]])
    """The streams that it reads."""
    own: tuple[str, ...] = Field(examples=[["orders"]])
    """Names in `reads` that refer to your own streams, not to public ones."""
    publishes: str | None = Field(examples=["hits"])
    """Stream that it publishes its matches to."""
    template: int | None = Field(examples=[1])
    """The template of its joins, for the operator."""
    updates: bool = Field(examples=[False])
    """True if new versions of documents are matched, too."""
    stories: bool = Field(False, examples=[True])
    """True if matches that share documents are grouped into stories."""
    version: int = Field(examples=[1])
    """The version of the query: each edit of it makes the next one."""
    paused: bool = Field(examples=[False])
    """True if it has no matches and no deliveries until it is resumed."""
    tags: tuple[str, ...] = Field(examples=[["daily"]])
    """Its tags, in their order."""
    history: History = Field(examples=["read"])
    """none: it began with documents that arrived after it; reading: matches of kept documents are
    being found, and new ones follow; read: they are there; failed: they were too many."""
    stopped: Stopped | None = None
    """Truncation by the bound of results; null if there was none."""
    unevaluated: tuple[NotEvaluatedIn, ...] = ()
    """Expressions that had no value in some documents."""
    refused: str | None = Field(None, examples=["line 1, column 6: 'let' is refused"])
    """Why this release refuses the query, which an earlier one took: it has no matches."""
    cost_share: float = Field(examples=[0.02])
    """Its share of the time that your subscriptions (for the operator: all) have taken since the
    service was started, from 0 to 1; time that several share is divided equally among them."""


class Registered(Subscription):
    """A subscription whose query was registered or edited, with what is doubtful about it."""

    warnings: tuple[str, ...] = Field(examples=[["nothing has come on the stream 'orders' yet"]])
    """The warnings of `xscl subscribe`: names that were never seen, values that were seen to be
    numbers that are written differently, joins without an equality, absences that wait."""


class SubscriptionTag(Answer):
    """A tag of subscriptions."""

    tag: str = Field(examples=["daily"])
    """The tag."""
    subscriptions: int = Field(examples=[3])
    """Number of subscriptions that have it."""


class MatchPage(Answer):
    """A page of matches; `next` is the query string of the next page."""

    matches: tuple[Match, ...]
    """The matches in the requested order."""
    next: str | None = Field(examples=["before=17&limit=100"])
    """Query string of the next page; null at the end."""


class ListedStory(Answer):
    """A story: matches of a subscription that share documents."""

    id: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """A stable name: 32 hexadecimal digits."""
    subscription: str = Field(examples=["echo"])
    """The name of the subscription."""
    timestamp: Moment | None = Field(examples=["2026-03-01T12:00:00Z"])
    """Time of the last of its `sources`; null without any."""
    started: Moment | None = Field(examples=["2026-03-01T11:00:00Z"])
    """Time of the first of its `sources`; null without any."""
    began: int = Field(examples=[17])
    """Position at which it began."""
    position: int = Field(examples=[19])
    """Position at which it has grown last."""
    documents: int = Field(examples=[8])
    """Number of its documents; 0 of a story that another one took over."""
    sources: tuple[Source, ...]
    """The first 50 of its documents, in the order of arrival."""
    merged_into: str | None = Field(examples=[None])
    """The story that took it over."""
    absence: str = Field("", examples=[""])
    """The documents that did not come in time, in words; empty if all did."""


class StarredDocument(DocumentShown):
    """A document of a starred match, as it was."""

    values: dict[str, tuple[str, ...]] = Field(examples=[{"category": ["sea"]}])
    """Its values that the match shows, by name."""


class Star(Answer):
    """A starred match, as it was when it was starred."""

    match: str = Field(examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"])
    """The id of the match."""
    subscription: str = Field(examples=["echo"])
    """The current name of its subscription."""
    starred: Moment = Field(examples=["2026-03-02T12:00:00Z"])
    """Time at which it was starred."""
    timestamp: Moment = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which the match was complete."""
    position: int = Field(examples=[17])
    """Position in the order of all results."""
    documents: tuple[StarredDocument, ...]
    """Its documents; none of a row of events."""
    values: dict[str, str] = Field(examples=[{"price": "12"}])
    """The values of a row of events."""
    xml: str = Field(examples=["<result>...</result>"])
    """The output document that its query constructs, shortened, or nothing."""


class Edge(Answer):
    """One condition of a match."""

    kind: str = Field(examples=["value"])
    """Kind of condition: pattern, value, time, order or registration."""
    text: str = Field(examples=["a = b"])
    """The condition."""
    holds: bool = Field(examples=[False])
    """True if the condition holds."""
    nearest: str | None = Field(examples=["'a12' and 'a13'"])
    """Evidence that it holds, or the nearest miss."""
    pending: bool = Field(False, examples=[False])
    """True if it does not hold, and time may still fulfil it."""


class Why(Answer):
    """The explanation of a match or non-match, condition by condition."""

    query: str = Field(examples=["echo"])
    """The name of the subscription, or the query."""
    documents: tuple[str, ...] = Field(examples=[["order-17", "invoice-4"]])
    """Their ids, as they were asked for."""
    matched: bool = Field(examples=[False])
    """True if all conditions hold."""
    edges: tuple[Edge, ...]
    """The conditions that decide it."""


class NearName(Answer):
    """A name that was seen."""

    name: str = Field(examples=["title"])
    """The name as a query writes it."""
    documents: int = Field(examples=[15])
    """Number of documents that have it, among those that were examined."""


class BlockFound(Answer):
    """A block of a query, and the documents that match it."""

    block: str = Field(examples=["feeds//item->a[./titel->t]"])
    """The block."""
    stream: str = Field(examples=["feeds"])
    """The stream that it reads."""
    kept: int = Field(examples=[15])
    """Number of documents of the stream."""
    examined: int = Field(examples=[15])
    """Number of these that were examined: the newest whose texts are kept."""
    matching: int = Field(examples=[0])
    """Number of examined documents that match the block."""
    needed: bool = Field(examples=[True])
    """False for a block without which there may be a match, as after NOT FOLLOWED BY."""
    failing: str | None = Field(
        None, examples=["feeds//item matches, but there is no /titel in it"]
    )
    """The part of the block that no examined document passes; null if one matches."""
    nearest: tuple[NearName, ...] = Field(examples=[[{"name": "title", "documents": 15}]])
    """Names nearest to the missing one, the nearest first."""


class Diagnosis(Answer):
    """The reasons why a query has no match among the kept documents."""

    query: str = Field(examples=["the query"])
    """The name of the subscription, or `the query`."""
    blocks: tuple[BlockFound, ...]
    """The blocks of the query, in their order."""
    closest: Why | None = None
    """The documents that come closest to a match; null if a block matches none."""
    version: int = Field(1, examples=[1])
    """The version of the subscription that is asked about; earlier ones may have matches."""


class UnseenName(Answer):
    """A name in a query that was never seen, or a doubtful comparison: a likely slip, no error."""

    kind: str = Field(examples=["name"])
    """`stream`; `name` for one of an element or attribute; `comparison` for one of texts whose
    values were seen to be numbers that are written differently."""
    name: str = Field(examples=["titel"])
    """The name, or the comparison."""
    message: str = Field(examples=["'titel' is not in the newest 15 documents of 'feeds'"])
    """The warning."""
    hint: str | None = Field(None, examples=["did you mean title (15 documents)?"])
    """The nearest names as text, or what to write instead."""
    line: int = Field(examples=[1])
    """Line of the name in the query, from 1."""
    column: int = Field(examples=[20])
    """Column of the name, from 1."""
    nearest: tuple[NearName, ...] = Field(examples=[[{"name": "title", "documents": 15}]])
    """The nearest names that were seen."""


class QueryFault(Answer):
    """The first error of a query."""

    code: str = Field(examples=["query"])
    """Stable code of the error."""
    message: str = Field(examples=["found 'JION' where the end of the query is expected"])
    """The error."""
    hint: str | None = Field(None, examples=["did you mean JOIN?"])
    """The text to write instead."""
    line: int = Field(examples=[1])
    """Line of the error, from 1."""
    column: int = Field(examples=[14])
    """Column of the error, from 1."""


class QueryCheck(Answer):
    """The check of a query."""

    error: QueryFault | None = None
    """Its first error; null if it can be registered."""
    sentence: str | None = Field(None, examples=["Tell me when an item of feeds comes."])
    """The query read back as one sentence; null with an error."""
    warnings: tuple[UnseenName, ...]
    """Names that were never seen, and doubtful comparisons."""
    absences: str | None = Field(
        None, examples=["an absence is reported only when a later document arrives"]
    )
    """Why the wall clock does not report the query's absences; null if it does."""
    silent: tuple[str, ...] = Field((), examples=[["orders"]])
    """Your streams of which it would report them, if their documents arrive as they happen."""


class Trial(Answer):
    """The matches of a trial."""

    total: int = Field(examples=[3])
    """Number of all matches."""
    matches: tuple[Match, ...]
    """The first matches, up to the limit."""
    diagnosis: Diagnosis | None = None
    """Why there is none; null if there is a match."""
    late: int = Field(0, examples=[1])
    """Number of documents that came too late for the query."""
    lateness: float = Field(0.0, examples=[0.0])
    """Lateness of its streams in seconds, the largest."""


class Explanation(Answer):
    """The evaluation plan of a query."""

    text: str = Field(examples=["template 1: shared by 3 subscriptions"])
    """Lines of text."""


class DocumentNode(Answer):
    """A node of a document, and the patterns that bind it."""

    node: int = Field(examples=[2])
    """Its number in the document, from 0 at the root."""
    depth: int = Field(examples=[1])
    """Number of ancestors."""
    path: str = Field(examples=["/order[1]/item[1]"])
    """Its location."""
    name: str = Field(examples=["item"])
    """Its qualified name as written; an attribute's with a leading `@`."""
    text: str = Field(examples=["a12"])
    """Its own text, or an attribute's value."""
    variables: tuple[str, ...] = Field(examples=[["orders//item"]])
    """The variables that it can be bound to, by their definitions."""


class Witness(Answer):
    """A document as the nodes that patterns match."""

    document: str = Field(examples=["orders/17"])
    """The name of the document."""
    nodes: tuple[DocumentNode, ...]
    """All its nodes, in document order."""
