"""Explanations as users see them: why (not), diagnoses, and checks of a query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from xscl.client import answers
from xscl.errors import QueryError
from xscl.inspection.reasons import Diagnosis, Why
from xscl.language.sentence import sentence
from xscl.service.accounts import Account
from xscl.service.app import App


def why_shown(account: Account, found: Why) -> answers.Why:
    """Return the explanation of some documents with a user's names."""
    return answers.Why(
        query=account.shown(found.query),
        documents=tuple(account.named(name) for name in found.documents),
        matched=found.matched,
        edges=tuple(
            reworded(answers.Edge.model_validate(edge), account.shown) for edge in found.edges
        ),
    )


def reworded(edge: answers.Edge, word: Callable[[str], str]) -> answers.Edge:
    """Return a condition whose texts `word` has mapped."""
    nearest = None if edge.nearest is None else word(edge.nearest)
    return edge.model_copy(update={"text": word(edge.text), "nearest": nearest})


def diagnosed(account: Account, found: Diagnosis) -> answers.Diagnosis:
    """Return a diagnosis with a user's names."""
    blocks = tuple(
        answers.BlockFound.model_validate(block).model_copy(
            update={
                "block": account.shown(block.block),
                "stream": account.named(block.stream),
                "failing": None if block.failing is None else account.shown(block.failing),
            }
        )
        for block in found.blocks
    )
    closest = None if found.closest is None else why_shown(account, found.closest)
    return answers.Diagnosis(
        query=account.shown(found.query), blocks=blocks, closest=closest, version=found.version
    )


def checked(app: App, account: Account, query: str) -> answers.QueryCheck:
    """Check a query in XSCL for a user; a fault of the query is in the result and not raised."""
    try:
        app.accounts.resolver.resolve(account, query)
        return answers.QueryCheck(sentence=sentence(query), **remarks(app, account, query))
    except QueryError as error:
        fault = answers.QueryFault.model_validate(error)
        fault = fault.model_copy(update={"message": account.shown(error.message)})
        return answers.QueryCheck(error=fault, sentence=None, warnings=(), absences=None, silent=())


def remarks(app: App, account: Account, query: str) -> dict[str, Any]:
    """Return `warnings`, `absences` and `silent` of a query, as `QueryCheck` has them.

    The latter two are empty if the query has a fault or reads a stream that the user may not read.
    """
    queries = app.engine.queries
    unseen = map(answers.UnseenName.model_validate, queries.unseen_names(query, account.visible))
    found: dict[str, Any] = {"warnings": tuple(unseen), "absences": None, "silent": ()}
    with suppress(QueryError):
        text = app.accounts.resolver.resolve(account, query).text
        if (why := queries.absence_warning(text)) is not None:
            found["absences"] = account.shown(why)
        found["silent"] = tuple(filter(None, map(account.own, queries.silent_streams(text))))
    return found
