"""Bodies of requests and responses, and their types, as the OpenAPI document describes them.

The docstring after a field of a JSON body is its description (`use_attribute_docstrings` of
pydantic); `Field` only has the examples and the limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from xscl.time_format import written

Moment: TypeAlias = Annotated[
    int,
    PlainSerializer(written, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time in ticks, in JSON as ISO 8601 in UTC: `2026-03-01T12:00:00Z`, or with a fraction."""

DeliveryTime: TypeAlias = Annotated[str, BeforeValidator(written)]
"""A time as deliveries write it (RFC 3339), validated from ticks."""


class JsonBody(BaseModel):
    """A JSON object whose fields are described by the docstrings after them.

    `model_validate` also takes an object with attributes of the same names.
    """

    model_config = ConfigDict(use_attribute_docstrings=True, from_attributes=True)


class RequestBody(JsonBody):
    """The body of a request; a field that it does not declare is an error."""

    model_config = ConfigDict(extra="forbid")


def raw_request(examples: Mapping[str, str]) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads plain bytes; `examples` by media type."""
    content = {
        kind: {"schema": {"type": "string"}, "example": example}
        for kind, example in examples.items()
    }
    return {"requestBody": {"required": True, "content": content}}


def raw_response(media_type: str, description: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that answers 200 with other than JSON."""
    return {200: {"content": {media_type: {}}, "description": description}}
