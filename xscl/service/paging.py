"""Keyset pagination: a cursor is the last key of a page, so that inserts shift nothing."""

from __future__ import annotations

from typing import Annotated, Generic, TypeAlias, TypeVar

from fastapi import Query
from pydantic import Field

from xscl.client.bodies import JsonBody

T = TypeVar("T")

Limit: TypeAlias = Annotated[int, Query(ge=1, le=1_000, description="Maximum number of items.")]
After: TypeAlias = Annotated[
    str | None, Query(max_length=1_000, description="The `next` of the page before.")
]
FROM_NEXT = "give the `next` of the page before, of a list in the same order"
Number: TypeAlias = Annotated[
    int | None, Query(ge=0, lt=1 << 62, description="The `next` of the page before.")
]


class Page(JsonBody, Generic[T]):
    """A part of a list; `next`, given as `after`, gets the part that follows; null at the end."""

    items: list[T]
    """This part of the list."""
    next: str | int | None = Field(None, examples=["weekly"])
    """Given as `after`, gets the part that follows; null at the end."""
