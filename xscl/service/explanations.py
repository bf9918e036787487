"""Explanations as users see them: why (not), diagnoses, and checks of a query."""

from __future__ import annotations

from collections.abc import Callable

from xscl.client import answers
from xscl.errors import QueryError
from xscl.inspection.diagnosis import Diagnosis
from xscl.inspection.why import Why
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
    """Return a condition with other words."""
    nearest = None if edge.nearest is None else word(edge.nearest)
    return edge.model_copy(update={"text": word(edge.text), "nearest": nearest})


def diagnosed(account: Account, found: Diagnosis) -> answers.Diagnosis:
    """Return a diagnosis with a user's names."""
    blocks = tuple(
        answers.BlockFound.model_validate(one).model_copy(
            update={
                "block": account.shown(one.block),
                "stream": account.named(one.stream),
                "failing": None if one.failing is None else account.shown(one.failing),
            }
        )
        for one in found.blocks
    )
    closest = None if found.closest is None else why_shown(account, found.closest)
    return answers.Diagnosis(query=account.shown(found.query), blocks=blocks, closest=closest)


def checked(app: App, account: Account, query: str) -> answers.QueryCheck:
    """Check a query in XSCL for a user."""
    try:
        app.accounts.resolver.resolve(account, query)
        return answers.QueryCheck(
            sentence=sentence(query),
            warnings=unseen(app, account, query),
            absences=absence_warning(app, account, query),
            silent=silent_streams(app, account, query),
        )
    except QueryError as error:
        fault = answers.QueryFault.model_validate(error)
        fault = fault.model_copy(update={"message": account.shown(error.message)})
        return answers.QueryCheck(error=fault, sentence=None, warnings=(), absences=None, silent=())


def unseen(app: App, account: Account, query: str) -> tuple[answers.UnseenName, ...]:
    """Return the names in a user's query that were never seen in what he may read."""
    found = app.engine.queries.unseen_names(query, account.visible)
    return tuple(map(answers.UnseenName.model_validate, found))


def silent_streams(app: App, account: Account, query: str) -> tuple[str, ...]:
    """Return a user's own streams whose absences in a query the wall clock does not report."""
    try:
        found = app.engine.queries.silent_streams(
            app.accounts.resolver.resolve(account, query).text
        )
    except QueryError:
        return ()
    return tuple(name for one in found if (name := account.own(one)) is not None)


def absence_warning(app: App, account: Account, query: str) -> str | None:
    """Return why the wall clock does not report the absences of a user's query.

    None if it does, or if he may not read a stream.
    """
    try:
        found = app.engine.queries.absence_warning(
            app.accounts.resolver.resolve(account, query).text
        )
    except QueryError:
        return None
    return None if found is None else account.shown(found)
