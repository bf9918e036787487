"""Data (SQL): queries over public relations, with table and chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Form, Query, Response

from xscl.delivery.cards import shortened
from xscl.drawing.charts import chart_of, draw_chart
from xscl.errors import XsclError
from xscl.service.marks import LONGEST_NAME, delete_statement, save_statement, saved_statements
from xscl.service.routes.sql import EXAMPLES, SqlQuestion, ask
from xscl.service.sql.limits import Form as SqlForm
from xscl.store.queries.relations import meaning
from xscl.web import facets
from xscl.web.pages import Asked, Lines, PageRequest, router

ROWS = 200
"""Maximum number of rows on a page."""
PAGES = 25
"""Maximum number of pages of an answer."""
ADDRESS = 8_000
"""Maximum length of an address with a query; the service takes 16 KiB, some proxies less."""


@router.get("/witnesses")
def question(
    asked: Asked,
    example: Annotated[int | None, Query(ge=0, le=1_000)] = None,
    subscription: Annotated[str, Query(max_length=500)] = "",
    sql: Annotated[Lines, Query(max_length=65_536)] = "",
    page: Annotated[int, Query(ge=1, le=PAGES)] = 1,
    facet: Annotated[list[str] | None, Query(max_length=facets.MOST)] = None,
) -> Response:
    """Show a query with its result: `sql`, an example by index, or a subscription's matches.

    A query in a link from another site is shown but not run.  `facet` are columns by whose values
    the rows are counted.
    """
    if subscription:
        named = subscription.replace("'", "''")
        sql = f"SELECT * FROM matches\nWHERE subscription = '{named}'"
    elif example is not None:
        sql = EXAMPLES[min(example, len(EXAMPLES) - 1)].query
    if not sql:
        return _page(asked, EXAMPLES[1].query, relations=_relations(asked))
    if asked.request.headers.get("Sec-Fetch-Site") == "cross-site":
        return _page(asked, sql)
    return _answered(asked, sql, page, facet or [])


@router.post("/witnesses/save")
def save(
    asked: Asked,
    sql: Annotated[Lines, Form(min_length=1, max_length=65_536)],
    name: Annotated[str, Form(max_length=LONGEST_NAME)] = "",
) -> Response:
    """Save a statement, by default under its first characters as the name, and return to it."""
    called = name.strip() or shortened(sql, LONGEST_NAME)
    asked.with_store(save_statement, asked.account, called, sql)
    return asked.redirect("/witnesses", sql=sql)


@router.post("/witnesses/forget")
def forget(asked: Asked, name: Annotated[str, Form(max_length=LONGEST_NAME)]) -> Response:
    """Remove a saved statement, and return to the page."""
    with asked.app.store() as store, store.transaction():
        delete_statement(store, asked.account, name)
    return asked.redirect("/witnesses")


@router.post("/witnesses")
def run(asked: Asked, sql: Annotated[Lines, Form(max_length=65_536)]) -> Response:
    """Redirect to the address of a query; run one that is too long for an address."""
    address = f"/witnesses?{urlencode({'sql': sql})}"
    if len(address) > ADDRESS:
        return _answered(asked, sql)
    return asked.redirect(address)


@router.get("/witnesses/answer.{form}")
def download(asked: Asked, form: SqlForm, sql: Annotated[str, Query()]) -> Response:
    """Download the result of a query as a file."""
    wanted = SqlQuestion.model_validate({"query": sql, "format": form})
    answer = ask(wanted, asked.app, asked.account)
    answer.headers["Content-Disposition"] = f'attachment; filename="answer.{form}"'
    return answer


def _answered(
    asked: PageRequest, text: str, page: int = 1, columns: Sequence[str] = ()
) -> Response:
    """Run a query and show a page of its result with facets of `columns`, or its error."""
    begin = ROWS * (page - 1)
    try:
        found = asked.app.store.sql.ask(text, asked.account, rows=begin + ROWS)
        counted = [_facet(asked, text, column) for column in columns]
    except XsclError as error:
        return _page(asked, text, error=asked.problem(error, text))
    names, rows = [column.name for column in found.columns], found.rows()[begin:]
    chart = chart_of(names, rows)
    texts = [[_cell(value) for value in row] for row in rows]
    query = urlencode({"sql": text})
    is_short = len(query) <= ADDRESS
    further = [("facet", column) for column in columns]
    return _page(
        asked,
        text,
        answer=found,
        rows=texts,
        first=begin + 1,
        drawn=None if chart is None else draw_chart(chart),
        query=query,
        downloads=("csv", "parquet", "json") if is_short else (),
        facets=counted,
        suggested=[one for one in facets.suggested(names, rows) if one not in columns]
        if is_short and len(columns) < facets.MOST
        else [],
        chosen=further,
        earlier=_address(text, page - 1, further) if page > 1 else None,
        later=_address(text, page + 1, further)
        if is_short and found.truncated and page < PAGES
        else None,
    )


def _facet(asked: PageRequest, text: str, column: str) -> dict[str, Any]:
    """Return the facet of a column over all rows of a query (`facets.facet`)."""
    found = asked.app.store.sql.ask(facets.counting(text, column), asked.account)
    return facets.facet(text, column, found.rows())


def _address(text: str, page: int, further: Sequence[tuple[str, str]]) -> str:
    return f"/witnesses?{urlencode([('sql', text), *further, ('page', page)])}"


def _relations(asked: PageRequest) -> dict[str, list[dict[str, str]]]:
    """Return descriptions of the columns of all relations, by the relation's name."""
    try:
        rows = asked.app.store.sql.ask(
            'SELECT relation, what, "column", type FROM relations',
            asked.account,
            rows=5_000,
        ).rows()
    except XsclError:  # the page works without this help
        return {}
    shown: dict[str, list[dict[str, str]]] = {}
    for name, what, column, kind in rows:
        one = {"what": what, "name": column, "kind": kind, "words": meaning(name, column)}
        shown.setdefault(name, []).append(one)
    return shown


def _page(asked: PageRequest, sql: str, **more: Any) -> Response:
    shown = {"error": None, "answer": None, "drawn": None, "relations": {}, "downloads": ()} | more
    shown["saved"] = asked.with_store(saved_statements, asked.account)
    return asked.page("sql.html", sql=sql, examples=EXAMPLES, **shown)


def _cell(value: object) -> str:
    return "" if value is None else shortened(str(value))
