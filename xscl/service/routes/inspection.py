"""Questions: what a query would have matched (`try`), why (not), and how it is evaluated."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Path, Query
from pydantic import Field

from xscl.client import answers
from xscl.client.answers import QUERY
from xscl.documents.document_ids import find_document
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.bodies import RequestBody, example
from xscl.service.browsing import spooled, witness
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.explanations import (
    checked,
    diagnosed,
    why_shown,
)
from xscl.service.match_views import shown_within
from xscl.service.names import owner
from xscl.service.problems import Problem, refuse_bare
from xscl.service.resolving import ResolvedQuery
from xscl.service.routes.subscriptions import Name
from xscl.service.subscribing import versions, written

router = api_router(tag="questions")

SECONDS = 30.0
"""Time limit of a trial in seconds."""


class QueryAsked(RequestBody):
    """A query, or one of your subscriptions by its name."""

    query: str | None = Field(None, max_length=1_000_000, examples=[QUERY])
    """A query's text; give this or `subscription`."""
    subscription: str | None = Field(None, max_length=500, examples=["echo"])
    """The name of one of your subscriptions."""


class DiagnoseAsked(QueryAsked):
    """A query without matches, and the kept documents to examine."""

    model_config = example(query=QUERY, since="7 d")

    since: str | None = Field(None, max_length=100, examples=["7 d"])
    """Duration of kept documents to evaluate, counted back from the latest one; default: all."""


class TryAsked(DiagnoseAsked):
    """A query to try, and the kept documents to evaluate."""

    limit: int = Field(100, ge=1, le=1_000)
    """Maximum number of matches to return."""


class CheckAsked(RequestBody):
    """A query in XSCL to check."""

    query: str = Field(max_length=65_536, examples=[QUERY])
    """The query."""


class ExplainAsked(QueryAsked):
    """A query to explain."""

    model_config = example(query=QUERY)

    sql: bool = False
    """Show the SQL of its joins instead."""


class WhyAsked(QueryAsked):
    """A query, and a document for each of its blocks."""

    model_config = example(subscription="echo", documents=["orders/17", "invoices/4"])

    documents: list[Annotated[str, Field(max_length=1_000)]] = Field(
        min_length=1, max_length=100, examples=[["orders/17", "invoices/4"]]
    )
    """Names or ids of the documents, in the order of the blocks; `-` for a block without one."""


@router.post("/try", summary="Try a query on stored documents")
def try_(asked: TryAsked, app: TheApp, account: TheAccount) -> answers.Trial:
    """Evaluates a query over kept documents without registering it; returns its matches.

    If there is none, `diagnosis` has the reasons.
    """
    refuse_bare(asked.since, "duration", "d", "h")
    query, resolved = _query(app, account, asked)
    with app.accounts.limits.questions.hold(account.number), resolved.as_written():
        trial, reasons = app.engine.queries.tried(query, asked.since, SECONDS)
        found = trial.matches
        return answers.Trial(
            total=len(found),
            matches=tuple(shown_within(account, found[: asked.limit])),
            diagnosis=None if reasons is None else diagnosed(account, reasons),
            late=trial.late,
            lateness=trial.lateness / 1e6,
        )


@router.post("/why", summary="Explain why documents match, or why not")
def why(asked: WhyAsked, app: TheApp, account: TheAccount) -> answers.Why:
    """Lists each condition of a query on the given documents, with its evidence or nearest miss."""
    query, resolved = _query(app, account, asked)
    read = partial(spooled, app.engine, directory=app.home.spool)
    with app.accounts.limits.questions.hold(account.number), resolved.as_written():
        why = app.engine.queries.why
        found = why(query, *asked.documents, read=read, visible=account.called)
        return why_shown(account, found)


@router.post("/diagnose", summary="Explain why a query has no match")
def diagnose(asked: DiagnoseAsked, app: TheApp, account: TheAccount) -> answers.Diagnosis:
    """Counts the documents that match each block, and explains those that come closest to a match.

    The newest kept documents are examined, for about two seconds.
    """
    refuse_bare(asked.since, "duration", "d", "h")
    query, resolved = _query(app, account, asked)
    with app.accounts.limits.questions.hold(account.number), resolved.as_written():
        return diagnosed(account, app.engine.why(query, since=asked.since))


@router.post("/check", summary="Check a query")
def check(asked: CheckAsked, app: TheApp, account: TheAccount) -> answers.QueryCheck:
    """Checks a query while it is written: its first error, or its names that were never seen."""
    return checked(app, account, asked.query)


@router.post("/explain", summary="Explain a query")
def explain(asked: ExplainAsked, app: TheApp, account: TheAccount) -> answers.Explanation:
    """Explains the evaluation plan of a query without registering it."""
    return _explained(app, account, asked, sql=asked.sql)


@router.get("/subscriptions/{name}/explain", summary="Explain a subscription")
def explain_subscription(
    name: Name,
    app: TheApp,
    account: TheAccount,
    sql: Annotated[bool, Query(description="Show the SQL of its joins.")] = False,
) -> answers.Explanation:
    """Explains the plan of a subscription, with the number of your subscriptions that share it."""
    return _explained(app, account, QueryAsked(query=None, subscription=name), sql=sql)


@router.get("/documents/{id:path}/witness", summary="Show a document's nodes")
def show_witness(
    id: Annotated[
        str, Path(min_length=1, max_length=1_000, description="The document's name or id.")
    ],
    app: TheApp,
    account: TheAccount,
) -> answers.Witness:
    """Shows the nodes of a document, for the operator with the variables that can bind them."""
    with app.accounts.limits.questions.hold(account.number):
        with app.store() as store:
            name = find_document(store, id, account.called)
        found = witness(app.engine, name, app.home.spool)
    nodes = []
    for node in found.nodes:  # the variables are those of all users' queries
        if node.variables:
            shown = map(account.shown, node.variables) if account.is_operator else ()
            node = node.model_copy(update={"variables": tuple(shown)})
        nodes.append(node)
    return answers.Witness(document=account.named(found.document), nodes=tuple(nodes))


def _explained(app: App, account: Account, asked: QueryAsked, *, sql: bool) -> answers.Explanation:
    query, resolved = _query(app, account, asked)
    seen = None if account.is_operator else lambda name: owner(name)[0] == account.number
    with resolved.as_written():
        return answers.Explanation(
            text=account.shown(app.engine.explain(query, sql=sql, seen=seen))
        )


def _query(app: App, account: Account, asked: QueryAsked) -> tuple[str, ResolvedQuery]:
    """Return the engine's argument, a subscription's name or a query's text, and the query."""
    if (asked.query is None) == (asked.subscription is None):
        raise Problem("query_or_subscription", "give either a query or the name of a subscription")
    if asked.subscription is not None:
        found = versions(app, account, asked.subscription)[-1]
        return found.name, ResolvedQuery(found.query, written(app, account, found))
    resolved = app.accounts.resolver.resolve(account, asked.query or "")
    # The blank makes it a query for the engine, even if a subscription has this text as its name.
    text = f"{resolved.text} "
    return text, ResolvedQuery(text, resolved.written, resolved.prefix, resolved.insertions)
