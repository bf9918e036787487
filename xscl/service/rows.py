"""Subscription lists in the bodies of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from xscl.service.problems import Problem
from xscl.service.subscribing import SubscriptionRequest
from xscl.subscriptions.import_rows import read_import_rows

T = TypeVar("T")
MOST = 200_000
"""Maximum number of rows of a list."""


async def read_rows(request: Request, use: Callable[[list[SubscriptionRequest]], T]) -> T:
    """Parse the rows of a request body and pass them to `use`, both in a worker thread."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    return await run_in_threadpool(lambda: use(list(_rows(body, kind))))


def _rows(body: bytes, kind: str) -> Iterator[SubscriptionRequest]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Problem(
            "encoding", f"the list is not UTF-8 text: byte {error.start + 1} is wrong"
        ) from None
    for number, row in enumerate(read_import_rows(text, is_csv=kind == "text/csv"), 1):
        if number > MOST:
            raise Problem(
                "too_many_rows", f"the list has more than {MOST:,} rows", hint="send it in parts"
            )
        yield SubscriptionRequest(*row)
