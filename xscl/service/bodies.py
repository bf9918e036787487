"""Bodies of requests, as the OpenAPI document describes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, ConfigDict

from xscl.client.bodies import JsonBody
from xscl.time_format import written

DeliveryTime: TypeAlias = Annotated[str, BeforeValidator(written)]
"""A time as deliveries write it (RFC 3339), validated from ticks."""


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
