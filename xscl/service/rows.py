"""Parsing of subscription lists: CSV with a header, or JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from xscl.service.problems import Problem, unprocessable
from xscl.service.subscribing import Wanted

T = TypeVar("T")
MOST = 200_000
"""Maximum number of rows of a list."""


class Row(BaseModel):
    """A row of a list."""

    model_config = ConfigDict(extra="forbid")

    name: str
    query: str
    updates: bool = False


async def read_rows(request: Request, use: Callable[[list[Wanted]], T]) -> T:
    """Parse the rows of a request body and pass them to `use`, both in a worker thread."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    return await run_in_threadpool(lambda: use(list(_rows(body, kind))))


def _rows(body: bytes, kind: str) -> Iterator[Wanted]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unprocessable(
            "encoding", f"the list is not UTF-8 text: byte {error.start + 1} is wrong"
        ) from None
    found = _csv(text) if kind == "text/csv" else _json_lines(text)
    for number, row in enumerate(found, 1):
        if number > MOST:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "too_many_rows",
                f"the list has more than {MOST:,} rows",
                hint="send it in parts",
            )
        yield Wanted(row.name, row.query, row.updates)


def _csv(text: str) -> Iterator[Row]:
    csv.field_size_limit(1_000_000)
    reader = csv.DictReader(io.StringIO(text), strict=True)
    number = 0
    try:
        heading = reader.fieldnames or ()
        if not {"name", "query"} <= set(heading):
            raise _wrong(1, "the first line of the list does not name the columns name and query")
        for row in reader:
            number += 1
            given = {key: value for key, value in row.items() if value not in ("", None)}
            if None in row:
                raise _wrong(number, "the row has more cells than the heading")
            yield _row(number, given)
    except csv.Error as error:
        raise _wrong(number + 1, f"it is no CSV: {error}") from None


def _json_lines(text: str) -> Iterator[Row]:
    number = 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        number += 1
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise _wrong(number, "the line is no JSON") from None
        yield _row(number, value)


def _row(number: int, value: object) -> Row:
    try:
        return Row.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the row"
        raise _wrong(number, f"{place}: {first['msg']}") from None


def _wrong(number: int, detail: str) -> Problem:
    return unprocessable(
        "wrong_row",
        detail,
        hint='a row is {"name": "...", "query": "..."}, or name,query with a heading as CSV',
        row=number,
    )
