"""Witnesses: SQL over all that is public, with a table and a chart; a document's nodes."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Form, Query, Request
from fastapi.responses import HTMLResponse

from xscl.drawing import chart_of, draw_chart
from xscl.errors import XsclError
from xscl.page.cards import shortened
from xscl.page.problems import PageRoute, told
from xscl.page.rendering import page
from xscl.service.accounts import Account
from xscl.service.dependencies import Here, TheOperator, Who
from xscl.service.routes.ask import show_witness

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ROWS = 200
"""Rows of an answer that are shown."""


@dataclass(frozen=True, slots=True)
class Example:
    """A question to begin with."""

    slug: str
    title: str
    sql: str


EXAMPLES = (
    Example(
        "documents",
        "Documents by day",
        "SELECT (timestamp // 86400000000)::INT AS day, count(*) AS documents\n"
        "FROM documents GROUP BY day ORDER BY day",
    ),
    Example("streams", "Streams and what is late", "SELECT * FROM watermarks"),
    Example(
        "values",
        "Values that many documents share",
        "SELECT strVal, count(DISTINCT docid) AS documents FROM R_doc\n"
        "WHERE strVal <> '' GROUP BY strVal HAVING documents > 1 ORDER BY documents DESC",
    ),
    Example("witnesses", "Bindings of variables", "SELECT * FROM R_bin LIMIT 50"),
    Example(
        "templates",
        "Subscriptions by template",
        "SELECT template, count(*) AS subscriptions\nFROM subscriptions GROUP BY template",
    ),
    Example("rejected", "Documents that could not be read", "SELECT * FROM rejected"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gave: the first rows as texts, and how many there are."""

    names: list[str]
    rows: list[list[str]]
    total: int


@router.get("/witnesses")
def blank(
    request: Request, who: TheOperator, example: Annotated[str, Query(max_length=100)] = ""
) -> HTMLResponse:
    """Return the page, with the SQL of an example."""
    chosen = next((one for one in EXAMPLES if one.slug == example), EXAMPLES[0])
    return _page(request, who, chosen.sql)


@router.post("/witnesses")
def run(
    request: Request, here: Here, who: TheOperator, sql: Annotated[str, Form(max_length=65_536)]
) -> HTMLResponse:
    """Return the page with an answer, or with what is wrong with the question."""
    try:
        table = here.engine.sql(sql)
    except XsclError as error:
        return _page(request, who, sql, error=told(error, who))
    columns = [column.to_pylist() for column in table.slice(0, ROWS).columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    chart = chart_of(table.column_names, rows)
    texts = [[_cell(value) for value in row] for row in rows]
    answer = Answer(table.column_names, texts, table.num_rows)
    return _page(
        request, who, sql, answer=answer, drawn=None if chart is None else draw_chart(chart)
    )


@router.get("/document")
def document(
    request: Request, here: Here, who: Who, id: Annotated[str, Query(max_length=1_000)]
) -> HTMLResponse:
    """Return the tree of a document with its node ids and what binds them."""
    return page(request, "document.html", who, found=show_witness(id, here, who))


def _page(request: Request, who: Account, sql: str, **more: Any) -> HTMLResponse:
    shown = {"error": None, "answer": None, "drawn": None} | more
    wrong = shown["error"] is not None
    status = HTTPStatus.UNPROCESSABLE_ENTITY if wrong else HTTPStatus.OK
    return page(request, "witnesses.html", who, status=status, sql=sql, examples=EXAMPLES, **shown)


def _cell(value: object) -> str:
    return "" if value is None else shortened(str(value))
