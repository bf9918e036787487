"""Not this again: conditions that a match would not meet, each as a proposed next version."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import HTMLResponse

from xscl.documents.results import XSCL
from xscl.inspection.by_example import Exclusion, exclusions
from xscl.service.routes import subscriptions
from xscl.service.routes.inspection import WhyAsked, why
from xscl.service.subscribing import existing
from xscl.web.page_request import Asked, PageRequest, router
from xscl.web.views.items import example


@router.get("/not-again")
def not_again(
    asked: Asked,
    subscription: Annotated[str, Query(max_length=500)],
    doc: Annotated[list[str], Query(min_length=1, max_length=20)],
) -> HTMLResponse:
    """Show the conditions that exclude a match, given by its documents; nothing changes yet."""
    found = subscriptions.shown(
        asked.app, asked.account, existing(asked.app, asked.account, subscription)
    )
    examples = [example(asked, one) for one in doc]
    trees = [one.part.tree for one in examples]
    listed = exclusions(found.query, trees) if found.language == XSCL else [[] for _ in trees]
    choices = [
        (one.card, [each for each in those if _excludes(asked, each, doc)])
        for one, those in zip(examples, listed, strict=True)
    ]
    return asked.page("not_again.html", name=subscription, query=found.query, choices=choices)


def _excludes(asked: PageRequest, one: Exclusion, documents: list[str]) -> bool:
    """Return True if the documents do not match the query with the condition."""
    question = WhyAsked(query=one.query, subscription=None, documents=documents)
    return not why(question, asked.app, asked.account).matched
