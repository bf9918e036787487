"""Bodies of requests, as the OpenAPI document describes them, and pages of lists.

A cursor of a list is the last key of a page, so that inserts shift nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from fastapi import Query
from pydantic import ConfigDict, Field
from starlette.responses import Response

from xscl.client.bodies import JsonBody


class RequestBody(JsonBody):
    """The body of a request; a field that it does not declare is an error."""

    model_config = ConfigDict(extra="forbid")


def example(**fields: Any) -> ConfigDict:
    """Return the configuration of a body with an example."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


def raw_request(examples: Mapping[str, str]) -> dict[str, Any]:
    """Return `openapi_extra` of a route that reads plain bytes; `examples` by media type."""
    content = {
        kind: {"schema": {"type": "string"}, "example": example}
        for kind, example in examples.items()
    }
    return {"requestBody": {"required": True, "content": content}}


def raw_response(media_type: str, description: str) -> dict[str, Any]:
    """Return the arguments of a route that answers 200 with other than JSON."""
    answer = {"content": {media_type: {}}, "description": description}
    return {"response_class": Response, "responses": {200: answer}}


T = TypeVar("T")

Limit: TypeAlias = Annotated[int, Query(ge=1, le=1_000, description="Maximum number of items.")]
After: TypeAlias = Annotated[
    str | None, Query(max_length=1_000, description="The `next` of the page before.")
]
FROM_NEXT = "give the `next` of the page before, of a list in the same order"
Number: TypeAlias = Annotated[
    int | None, Query(ge=0, lt=1 << 62, description="The `next` of the page before.")
]


class ListPage(JsonBody, Generic[T]):
    """A part of a list; `next`, given as `after`, gets the part that follows; null at the end."""

    items: list[T]
    """This part of the list."""
    next: str | int | None = Field(None, examples=["weekly"])
    """Given as `after`, gets the part that follows; null at the end."""
