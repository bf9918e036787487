"""Data (SQL): queries over public relations, with table and chart."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse

from xscl.delivery.cards import shortened
from xscl.drawing import chart_of, draw_chart
from xscl.errors import XsclError
from xscl.service.routes.sql import EXAMPLES, viewer
from xscl.web.page_request import Asked, PageRequest
from xscl.web.problems import PageRoute, problem_text

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS = 200
"""Maximum number of rows."""


@dataclass(frozen=True, slots=True)
class SqlResult:
    """A query result: the first rows as texts, whether there are more, and its age."""

    names: list[str]
    rows: list[list[str]]
    truncated: bool
    seconds: float
    age: float


@router.get("/witnesses")
def blank(
    asked: Asked,
    example: Annotated[int, Query(ge=0, le=1_000)] = 0,
    subscription: Annotated[str, Query(max_length=500)] = "",
) -> HTMLResponse:
    """Show the page with the SQL of an example, or of a subscription's matches."""
    if subscription:
        named = subscription.replace("'", "''")
        return _page(asked, f"SELECT * FROM matches\nWHERE subscription = '{named}'")
    return _page(asked, EXAMPLES[min(example, len(EXAMPLES) - 1)].query)


@router.post("/witnesses")
def run(asked: Asked, sql: Annotated[str, Form(max_length=65_536)]) -> HTMLResponse:
    """Run a query and show its result or its error."""
    text = sql.replace("\r\n", "\n")
    try:
        found = asked.here.sql.ask(text, viewer(asked.who), rows=ROWS)
    except XsclError as error:
        return _page(asked, text, error=problem_text(error, asked.who, text))
    names, rows = [column.name for column in found.columns], found.rows()
    chart = chart_of(names, rows)
    texts = [[_cell(value) for value in row] for row in rows]
    answer = SqlResult(names, texts, found.truncated, found.seconds, found.as_of.age)
    drawn = None if chart is None else draw_chart(chart)
    return _page(asked, text, answer=answer, drawn=drawn)


def _page(asked: PageRequest, sql: str, **more: Any) -> HTMLResponse:
    shown = {"error": None, "answer": None, "drawn": None} | more
    status = HTTPStatus.UNPROCESSABLE_ENTITY if shown["error"] else HTTPStatus.OK
    return asked.page("sql.html", status=status, sql=sql, examples=EXAMPLES, **shown)


def _cell(value: object) -> str:
    return "" if value is None else shortened(str(value))
