"""The query editor: live checks, trials on kept documents, and saving."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import Form, Query, Response
from pydantic import BaseModel, Field, StringConstraints
from starlette.concurrency import run_in_threadpool

from xscl.delivery.cards import shown
from xscl.errors import QueryError, TooLong, XsclError
from xscl.inspection.reasons import late_note
from xscl.language.parser import refuse_bare_windows
from xscl.language.sentence import sentence
from xscl.limiter import TooManyConcurrent
from xscl.service.explanations import diagnosed, remarks
from xscl.service.problems import Problem
from xscl.service.routes import streams, subscriptions
from xscl.service.routes.inspection import SECONDS
from xscl.service.subscribing import (
    SubscriptionEdit,
    SubscriptionRequest,
    change,
    existing,
    subscribe,
)
from xscl.subscriptions.match import Match
from xscl.web.conditions import readable
from xscl.web.gallery import case_of
from xscl.web.pages import Asked, Lines, PageRequest, router
from xscl.web.views.subscriptions import drawing

SHOWN = 10
"""Maximum number of matches of a trial that the page shows."""
COUNTING = 1.0
"""Maximum seconds of a count of matches while a query is written; a trial may wait for it."""
SPANS = (("7d", "7 days"), ("1d", "day"), ("30d", "30 days"), ("", "all that is kept"))

_NOTHING: dict[str, Any] = {
    "error": None,
    "drawn": None,
    "read_back": "",
    "warnings": [],
    "absences": None,
    "silent": (),
}
"""The values of `_checked` for an empty query."""

Text = Annotated[str, Form(max_length=65_536)]


@router.get("/subscribe")
def blank(
    asked: Asked,
    example: Annotated[str, Query(max_length=100)] = "",
    draft: Annotated[str, Query(alias="from", max_length=500)] = "",
    query: Annotated[Lines, Query(max_length=65_536)] = "",
    edit: Annotated[str, Query(max_length=500)] = "",
) -> Response:
    """Show the editor, empty or with a query: `query`, or that of an example or subscription.

    `example` is the slug of a use case.  `from` names a subscription whose query a new one begins
    with.  `edit` names one to change, for which `query` is a proposal.
    """
    case = case_of(example)
    if edit:
        stored = _query_of(asked, edit)
        return _editor(
            asked,
            query=query or stored,
            stored=stored if query not in ("", stored) else "",
            name=edit,
            edit=edit,
            since="30d",
            stories=existing(asked.app, asked.account, edit).stories,
        )
    if query:
        return _editor(asked, query=query, since="30d")
    if draft:
        grouped = existing(asked.app, asked.account, draft).stories
        query = _query_of(asked, draft)
        return _editor(asked, query=query, name=f"{draft}-2", stories=grouped)
    if case is None:
        return _editor(asked)
    return _editor(
        asked, query=case.query, name=case.slug, case=case, since="30d", stories=case.stories
    )


@router.post("/subscribe/check")
def check(asked: Asked, query: Text) -> Response:
    """Show the error of a query, or its join graph, sentence and warnings."""
    return asked.page("checked.html", status=HTTPStatus.OK, **_checked(query, asked))


@router.post("/subscribe/count")
async def count(asked: Asked, query: Text) -> Response:
    """Show the number of matches of a query in the last 30 days.

    The count ends when its client disconnects, as a browser does at each further letter.
    """
    dropped = threading.Event()
    counting = asyncio.create_task(run_in_threadpool(_counted, asked, query, dropped))
    # The body has been read, so the only message that can follow is `http.disconnect`.
    leaving = asyncio.ensure_future(asked.request.receive())
    try:
        await asyncio.wait((counting, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        dropped.set()
        leaving.cancel()
    return await counting


class QueryForm(BaseModel):
    """The input of the editor: a new query, or that of the subscription `edit`.

    `do` is the button.  The streams `live` are to become live.
    """

    query: Lines = Field(max_length=65_536)
    do: Literal["try", "save"]
    name: Annotated[str, StringConstraints(max_length=200, strip_whitespace=True)] = ""
    since: str = Field(default="", max_length=20)
    edit: str = Field(default="", max_length=500)
    history: bool = False
    stories: bool = False
    live: list[str] = Field(default=[], max_length=100)

    @property
    def given(self) -> dict[str, Any]:
        """Return the fields that the editor shows again after a trial or an error."""
        return self.model_dump(exclude={"do", "live"})


@router.post("/subscribe")
async def submit(asked: Asked, form: Annotated[QueryForm, Form()]) -> Response:
    """Try or save a query; show errors in the editor."""
    try:
        refuse_bare_windows(form.query)
        if form.do == "try":
            return await run_in_threadpool(_tried, asked, form)
        await _save(asked, form)
    except (XsclError, Problem) as error:
        wrong = _NOTHING | {"error": asked.problem(error)}
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        shown_again = partial(_editor, asked, status=status, checked=wrong, **form.given)
        return await run_in_threadpool(shown_again)
    saved = "edit" if form.edit else "history" if form.history else "now"
    return asked.redirect(f"/subscriptions/{quote(form.name)}", saved=saved)


def _query_of(asked: PageRequest, name: str) -> str:
    """Return the query of the reader's subscription, as he has written it; Problem 404."""
    own = asked.app, asked.account
    return subscriptions.shown(*own, existing(*own, name)).query


async def _save(asked: PageRequest, form: QueryForm) -> None:
    """Register a query, or change the query and perhaps the name of the subscription `form.edit`.

    The query's silent streams (see `QueryCheck`) that are in `form.live` become live.
    """
    own = asked.app, asked.account
    if not re.fullmatch(r"\S(.*\S)?", form.name):
        raise XsclError("the subscription needs a name", hint="any words will do")
    if form.edit:
        renamed = None if form.name == form.edit else form.name
        changed = SubscriptionEdit(query=form.query, stories=form.stories, name=renamed)
        await run_in_threadpool(change, *own, form.edit, changed)
    else:
        chosen = form.model_dump(include={"name", "query", "history", "stories"})
        await subscribe(*own, SubscriptionRequest(**chosen))
    silent = (await run_in_threadpool(remarks, *own, form.query))["silent"]
    await run_in_threadpool(streams.make_live, *own, [one for one in silent if one in form.live])


def _tried(asked: PageRequest, form: QueryForm) -> Response:
    """Show the matches of a query among kept documents, or a diagnosis; raises its errors."""
    app, account = asked.app, asked.account
    resolved = app.accounts.resolver.resolve(account, form.query)
    subject, begin = f"{resolved.text} ", form.since or None
    with app.accounts.limits.questions.hold(account.number), resolved.as_written():
        trial, reasons = app.engine.queries.tried(subject, begin, SECONDS)
    found = trial.matches
    last = range(len(found) - 1, max(-1, len(found) - 1 - SHOWN), -1)
    words = next((words for value, words in SPANS if value == form.since), form.since)
    return _editor(
        asked,
        **form.given,
        tried=[shown(found[index], "tried") for index in last],
        tried_total=len(found),
        tried_words=words if not form.since else f"the last {words}",
        tried_late=late_note(trial.late, trial.lateness),
        diagnosis=None if reasons is None else readable(diagnosed(account, reasons)),
    )


def _counted(asked: PageRequest, query: str, dropped: threading.Event) -> Response:
    """Show the count of matches of a query in the last 30 days, none if the query has an error.

    Setting `dropped` ends the count.
    """
    app, account = asked.app, asked.account
    found: Sequence[Match] | None = None
    is_long = False
    try:
        refuse_bare_windows(query)
        resolved = app.accounts.resolver.resolve(account, query)
        with app.accounts.limits.questions.hold(account.number):
            queries = app.engine.queries
            found = queries.trial(f"{resolved.text} ", "30d", COUNTING, dropped).matches
    except (TooLong, TooManyConcurrent):
        is_long = True
    except (XsclError, Problem):  # `_checked` reports the error
        found = None
    newest = found[-1].t1 if found else None
    total = None if found is None else len(found)
    return asked.page("counted.html", total=total, newest=newest, is_long=is_long)


def _checked(query: str, asked: PageRequest) -> dict[str, Any]:
    """Return values for the template: the error of a query, or its picture, sentence, warnings."""
    if not query.strip():
        return _NOTHING
    try:
        refuse_bare_windows(query)
        drawn, words = drawing(query), sentence(query)
    except QueryError as error:
        return _NOTHING | {"error": asked.problem(error)}
    said = remarks(asked.app, asked.account, query)
    return _NOTHING | {"drawn": drawn, "read_back": words} | said


def _editor(
    asked: PageRequest,
    *,
    status: int = HTTPStatus.OK,
    query: str = "",
    checked: dict[str, Any] | None = None,
    **given: Any,
) -> Response:
    shown: dict[str, Any] = {
        "name": "",
        "edit": "",
        "stored": "",
        "since": "7d",
        "history": True,
        "stories": False,
        "case": None,
        "tried": None,
        "tried_total": 0,
        "tried_words": "",
        "tried_late": "",
        "diagnosis": None,
        "spans": SPANS,
    }
    beside = _checked(query, asked) if checked is None else checked
    return asked.page("subscribe.html", status=status, query=query, **(shown | given), **beside)
