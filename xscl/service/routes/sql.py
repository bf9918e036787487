"""SQL: `POST /v1/sql`; examples, relations and saved statements under `/v1/sql/`."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Annotated

from fastapi import Path, Response
from pydantic import ConfigDict, Field

from xscl.client import service_answers as answers
from xscl.client.bodies import JsonBody
from xscl.service.bodies import RequestBody
from xscl.service.dependencies import TheAccount, TheApp, api_router
from xscl.service.marks import (
    LONGEST_NAME,
    delete_statement,
    save_statement,
    saved_statements,
)
from xscl.service.sql.limits import Form, Limits
from xscl.service.sql.sql_service import QueryResult

router = api_router("/sql", tag="sql")

_LIMITS = Limits()
_TYPES = {
    Form.CSV: "text/csv; charset=utf-8; header=present",
    Form.PARQUET: "application/vnd.apache.parquet",
}


class SqlQuestion(RequestBody):
    """One SELECT, with output format and row limit."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"query": "SELECT * FROM matches LIMIT 20"}}
    )

    query: str = Field(
        description=f"One SELECT of at most {_LIMITS.text:,} characters.",
        examples=["SELECT id, timestamp FROM documents LIMIT 10"],
    )
    format: Form = Form.JSON
    """Output format of the rows."""
    rows: int = Field(_LIMITS.rows, ge=1, le=_LIMITS.most_rows)
    """Maximum number of rows in the answer."""


class ExampleShown(JsonBody):
    """An example query."""

    title: str = Field(examples=["The latest documents"])
    """Title of the example."""
    query: str = Field(examples=["SELECT * FROM documents LIMIT 10"])
    """The query."""


class Statement(RequestBody):
    """A statement to save."""

    query: str = Field(
        min_length=1,
        max_length=_LIMITS.text,
        examples=["SELECT id, timestamp FROM documents LIMIT 10"],
    )
    """The statement."""


StatementName = Annotated[
    str, Path(min_length=1, max_length=LONGEST_NAME, description="The name of the statement.")
]

EXAMPLES = (
    ExampleShown(title="Relations that can be queried", query="SELECT * FROM relations"),
    ExampleShown(
        title="The latest matches", query="SELECT * FROM matches ORDER BY position DESC LIMIT 20"
    ),
    ExampleShown(
        title="Matches by subscription",
        query="SELECT subscription, count(*) AS matches FROM matches GROUP BY ALL"
        " ORDER BY 2 DESC, 1",
    ),
    ExampleShown(
        title="Matches by hour",
        query="SELECT time_bucket(INTERVAL 1 hour, make_timestamp(timestamp)) AS hour,"
        " count(*) AS matches\nFROM matches GROUP BY hour ORDER BY hour",
    ),
    ExampleShown(
        title="Documents by stream",
        query="SELECT stream, count(*) AS documents\n"
        "FROM (SELECT unnest(streams) AS stream FROM documents) GROUP BY stream ORDER BY 2 DESC",
    ),
    ExampleShown(
        title="Values that many documents share",
        query="SELECT strVal, count(DISTINCT docid) AS documents FROM R_doc\n"
        "WHERE strVal IS NOT NULL GROUP BY strVal ORDER BY documents DESC LIMIT 20",
    ),
    ExampleShown(
        title="The witnesses that wait for partners",
        query="SELECT var2 AS variable, count(*) AS witnesses FROM R_bin GROUP BY ALL"
        " ORDER BY 2 DESC",
    ),
    ExampleShown(
        title="How late documents came",
        query="SELECT stream, lateness, documents, late, rejected FROM watermarks",
    ),
    ExampleShown(
        title="What was not taken, and why",
        query="SELECT reason, count(*) AS documents, any_value(message) AS example FROM rejected\n"
        "GROUP BY reason ORDER BY 2 DESC",
    ),
    ExampleShown(
        title="Subscriptions with a template in common",
        query="SELECT * FROM R_sub ORDER BY template",
    ),
)


@router.post(
    "",
    summary="Run one SELECT",
    response_model=answers.SqlRows,
    responses={200: {"content": {"text/csv": {}, "application/vnd.apache.parquet": {}}}},
)
def ask(question: SqlQuestion, app: TheApp, account: TheAccount) -> Response:
    """Answers one SELECT over the rows of the public relations that you may see.

    It has at most 2 s, and its answer at most 5 MB. `as_of` is the moment, between two batches, of
    which it shows the state. In JSON, times, intervals and bytes are text, NaN and infinite numbers
    null. In CSV a text that a spreadsheet would run as a formula begins with an apostrophe.
    """
    answer = app.store.sql.ask(question.query, account, form=question.format, rows=question.rows)
    if question.format is Form.JSON:
        return Response(_document(answer), media_type="application/json")
    headers = {
        "XSCL-As-Of": answer.as_of.model_dump_json(),
        "XSCL-Truncated": str(answer.truncated).lower(),
        "Content-Disposition": f'attachment; filename="answer.{question.format.value}"',
    }
    return Response(answer.body, media_type=_TYPES[question.format], headers=headers)


@router.get("/examples", summary="List example queries")
def examples(account: TheAccount) -> list[ExampleShown]:
    """Lists example queries that can be run unchanged."""
    return list(EXAMPLES)


@router.get("/saved", summary="List saved statements")
def saved(app: TheApp, account: TheAccount) -> list[answers.SavedStatement]:
    """Lists your saved statements in the order of their names."""
    with app.store() as store:
        return saved_statements(store, account)


@router.put("/saved/{name}", summary="Save a statement", status_code=HTTPStatus.NO_CONTENT)
def save(name: StatementName, statement: Statement, app: TheApp, account: TheAccount) -> None:
    """Saves a statement without running it; replaces one of the same name."""
    with app.store() as store:
        save_statement(store, account, name, statement.query)


@router.delete(
    "/saved/{name}", summary="Remove a saved statement", status_code=HTTPStatus.NO_CONTENT
)
def forget(name: StatementName, app: TheApp, account: TheAccount) -> None:
    """Removes a saved statement, if there is one of that name."""
    with app.store() as store, store.transaction():
        delete_statement(store, account, name)


_DESCRIPTIONS = 'SELECT relation, "column", type, what FROM relations'


@router.get(
    "/relations", summary="List the relations that can be queried", response_model=answers.SqlRows
)
def relations(app: TheApp, account: TheAccount) -> Response:
    """Lists all relations, with their columns and descriptions."""
    answer = app.store.sql.ask(_DESCRIPTIONS, account, rows=_LIMITS.most_rows)
    return Response(_document(answer), media_type="application/json")


def _document(answer: QueryResult) -> bytes:
    """Return a result as a JSON document; its rows are JSON already."""
    head = {
        "columns": [column.model_dump() for column in answer.columns],
        "count": answer.count,
        "truncated": answer.truncated,
        "seconds": answer.seconds,
        "as_of": answer.as_of.model_dump(mode="json"),
    }
    return json.dumps(head).encode()[:-1] + b', "rows": ' + answer.body + b"}"
