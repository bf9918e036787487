"""Explanations as users see them: why (not), diagnoses, and checks of a query."""

from __future__ import annotations

from pydantic import Field

from xscl.errors import QueryError
from xscl.inspection.diagnosis import Diagnosis
from xscl.inspection.why import Why
from xscl.language.sentence import sentence
from xscl.service.accounts import Account
from xscl.service.bodies import JsonBody
from xscl.service.installation import Installation


class Edge(JsonBody):
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


class Answer(JsonBody):
    """The explanation of a match or non-match, condition by condition."""

    query: str = Field(examples=["echo"])
    """The name of the subscription, or the query."""
    documents: list[str] = Field(examples=[["order-17", "invoice-4"]])
    """Their ids, as they were asked for."""
    matched: bool = Field(examples=[False])
    """True if all conditions hold."""
    edges: list[Edge]
    """The conditions that decide it."""


class NearName(JsonBody):
    """A name that was seen."""

    name: str = Field(examples=["title"])
    """The name as a query writes it."""
    documents: int = Field(examples=[15])
    """Number of documents that have it, among those that were examined."""


class BlockFound(JsonBody):
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
    nearest: list[NearName] = Field(examples=[[{"name": "title", "documents": 15}]])
    """Names nearest to the missing one, the nearest first."""


class Diagnosed(JsonBody):
    """The reasons why a query has no match among the kept documents."""

    query: str = Field(examples=["the query"])
    """The name of the subscription, or `the query`."""
    blocks: list[BlockFound]
    """The blocks of the query, in their order."""
    closest: Answer | None = None
    """The documents that come closest to a match; null if a block matches none."""


class UnseenName(JsonBody):
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
    nearest: list[NearName] = Field(examples=[[{"name": "title", "documents": 15}]])
    """The nearest names that were seen."""


class QueryFault(JsonBody):
    """The first error of a query."""

    code: str = Field(examples=["query"])
    """Stable code of the error."""
    message: str = Field(examples=["found 'JION' where the end of the query is expected"])
    """The error."""
    hint: str | None = Field(None, examples=["did you mean JOIN?"])
    """What to write instead."""
    line: int = Field(examples=[1])
    """Line of the error, from 1."""
    column: int = Field(examples=[14])
    """Column of the error, from 1."""


class Checked(JsonBody):
    """The check of a query."""

    error: QueryFault | None = None
    """Its first error; null if it can be registered."""
    sentence: str | None = Field(None, examples=["Tell me when an item of feeds comes."])
    """The query read back as one sentence; null with an error."""
    warnings: list[UnseenName]
    """Names that were never seen, and doubtful comparisons."""
    absences: str | None = Field(
        None, examples=["an absence is reported only when a later document arrives"]
    )
    """Why the wall clock does not report the query's absences; null if it does."""


def why_shown(account: Account, found: Why) -> Answer:
    """Return the explanation of some documents with a user's names."""
    return Answer(
        query=account.shown(found.query),
        documents=[account.named(name) for name in found.documents],
        matched=found.matched,
        edges=[
            Edge(
                kind=edge.kind,
                text=account.shown(edge.text),
                holds=edge.holds,
                nearest=None if edge.nearest is None else account.shown(edge.nearest),
                pending=edge.pending,
            )
            for edge in found.edges
        ],
    )


def diagnosed(account: Account, found: Diagnosis) -> Diagnosed:
    """Return a diagnosis with a user's names."""
    blocks = [BlockFound.model_validate(one) for one in found.blocks]
    for block in blocks:
        block.block, block.stream = account.shown(block.block), account.named(block.stream)
        block.failing = None if block.failing is None else account.shown(block.failing)
    closest = None if found.closest is None else why_shown(account, found.closest)
    return Diagnosed(query=account.shown(found.query), blocks=blocks, closest=closest)


def checked(app: Installation, account: Account, query: str) -> Checked:
    """Check a query in XSCL for a user."""
    try:
        app.resolver.resolve(account, query)
        warnings, absences = unseen(app, account, query), absence_warning(app, account, query)
        return Checked(sentence=sentence(query), warnings=warnings, absences=absences)
    except QueryError as error:
        fault = QueryFault(
            code=error.code,
            message=account.shown(error.message),
            hint=error.hint,
            line=error.line,
            column=error.column,
        )
        return Checked(error=fault, sentence=None, warnings=[], absences=None)


def unseen(app: Installation, account: Account, query: str) -> list[UnseenName]:
    """Return the names in a user's query that were never seen in what he may read."""
    found = app.engine.host.queries.unseen_names(query, account.visible)
    return [UnseenName.model_validate(one) for one in found]


def absence_warning(app: Installation, account: Account, query: str) -> str | None:
    """Return why the wall clock does not report the absences of a user's query.

    None if it does, or if he may not read a stream.
    """
    try:
        found = app.engine.host.queries.absence_warning(app.resolver.resolve(account, query).text)
    except QueryError:
        return None
    return None if found is None else account.shown(found)
