"""The OpenAPI document: FastAPI's description of the routes, completed.

Added are problem documents with their codes, authentication by token, and the webhook that the
service itself sends, with its signature headers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, FastAPI, Header
from pydantic import ConfigDict, Field

from xscl.client.bodies import JsonBody
from xscl.service.problem_codes import CODES
from xscl.service.problems import MEDIA_TYPE


class ProblemDocument(JsonBody):
    """A problem document (RFC 9457) for a failed request."""

    type: str = Field(examples=["about:blank"])
    """Always `about:blank`."""
    title: str = Field(examples=["Unprocessable Entity"])
    """Reason phrase of the status."""
    status: int = Field(examples=[422])
    """HTTP status code."""
    code: str = Field(examples=["query"])
    """A stable code, for programs."""
    detail: str = Field(examples=["x3 is not bound"])
    """Description of this error."""
    hint: str | None = Field(None, examples=["bind it: ...->x3"])
    """Suggested remedy."""
    row: int | None = Field(None, examples=[3])
    """The row of a list, from 1."""
    line: int | None = Field(None, examples=[1])
    """The line of a query or document."""
    column: int | None = Field(None, examples=[7])
    """The column there."""


class SourceSent(JsonBody):
    """A document of a match."""

    document: str = Field(examples=["order-17"])
    """Its id."""
    title: str = Field(examples=["Streams"])
    """Its title, if it has one."""
    url: str | None = Field(examples=["https://example.org/"])
    """Address of the document; null if it has none."""


class DataSent(JsonBody):
    """Matches of one subscription on the same documents."""

    model_config = ConfigDict(extra="allow")

    id: str
    """Id of the message; retries have the same id."""
    subscription: str = Field(examples=["echo"])
    """The name of the subscription."""
    position: int = Field(examples=[17])
    """Position of its first match."""
    history: bool
    """True if all documents are items from before their feeds were followed."""
    sources: list[SourceSent]
    """The documents, in the order of the blocks."""
    matches: list[dict[str, Any]]
    """The matches: match, subscription, documents, t0, t1, bindings, xml."""


class Sent(JsonBody):
    """A message to a webhook."""

    type: str = Field(examples=["match"])
    """Always `match`."""
    timestamp: str = Field(examples=["2026-03-01T12:00:00Z"])
    """Time at which the match is complete, ISO 8601."""
    data: DataSent
    """The matches."""


_sending = APIRouter()


@_sending.post(
    "match",
    summary="A match, to the address of a webhook",
    responses={
        200: {"description": "Any 2xx within 30 s: taken. Everything else is tried again."},
        410: {"description": "The endpoint is disabled: nothing is sent there any more."},
        429: {"description": "Or 503: `Retry-After` is waited for."},
    },
)
def match(
    message: Sent,
    webhook_id: str = Header(
        description="The id of the message; it is the same when it is tried again.",
        examples=["0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f"],
    ),
    webhook_timestamp: int = Header(
        description="Time of sending, in seconds since 1970: refuse requests older than 5 minutes.",
        examples=[1772366400],
    ),
    webhook_signature: str = Header(
        description="`v1,` and the base64 of the HMAC-SHA256 of `id.timestamp.body` under the"
        " secret, which is the base64 after `whsec_`. For a day after a rotation there are two,"
        " with a blank between them.",
        examples=["v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="],
    ),
) -> None:
    """Sent by the service, signed by the Standard Webhooks scheme.

    Verify the signature with one of its libraries, or as `docs/deliveries.md` shows, before you
    believe the body. Delivery is at least once: keep the ids that you have seen.
    """


def describe(app: FastAPI) -> None:
    """Add problems, tokens and webhooks to the OpenAPI document of an application."""
    app.webhooks.include_router(_sending)
    plain = app.openapi

    def whole() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _completed(plain())
        return app.openapi_schema

    app.openapi = whole  # type: ignore[method-assign]  # as FastAPI documents it


def _completed(api: dict[str, Any]) -> dict[str, Any]:
    schemas = api["components"]["schemas"]
    schemas["Problem"] = ProblemDocument.model_json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            _join_lines(field)
    api["components"]["securitySchemes"] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "Made by `xscl token create`; from the same machine none is needed.",
        }
    }
    for path, methods in api["paths"].items():
        for operation in methods.values():
            for parameter in operation.get("parameters", ()):
                for described in (parameter, parameter["schema"]):
                    _join_lines(described)
            operation["security"] = [{}, {"token": []}]
            answers = operation["responses"]
            for status, (meaning, codes) in CODES.items():
                if status == 404 and "{" not in path:
                    continue
                answers[str(status)] = _problem(meaning, codes)
    for operation in api.get("webhooks", {}).get("match", {}).values():
        operation["responses"].pop("422", None)
    return api


def _join_lines(described: dict[str, Any]) -> None:
    """Put a description on one line, as that of a docstring may have several."""
    if "description" in described:
        described["description"] = " ".join(described["description"].split())


def _problem(meaning: str, codes: Iterable[str]) -> dict[str, Any]:
    listed = ", ".join(f"`{code}`" for code in codes)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {"description": f"{meaning} Codes: {listed}.", "content": content}
