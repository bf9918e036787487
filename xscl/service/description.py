"""The OpenAPI document, FastAPI's description of the routes, completed; and `GET /docs`.

Added are problem documents with their codes, authentication by token, and the webhook that the
service itself sends, with its signature headers.  The page /docs has no scripts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, FastAPI, Header, Request
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from pydantic import ConfigDict, Field
from starlette.responses import HTMLResponse

from xscl.client.answers import Source
from xscl.client.bodies import JsonBody
from xscl.service.problems import CODES, MEDIA_TYPE


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
    sources: tuple[Source, ...]
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


router = APIRouter(include_in_schema=False)

_SECURITY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The Content-Security-Policy of /docs, whose style sheet is that of the web UI."""


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Show every operation with its parameters and a call with curl."""
    made = getattr(request.app.state, "docs", None)
    if made is None:
        made = request.app.state.docs = _page(request.app.openapi())
    return HTMLResponse(made, headers={"Content-Security-Policy": _SECURITY})


def _page(api: Mapping[str, Any]) -> str:
    """Render an OpenAPI document as HTML."""
    environment = Environment(
        loader=PackageLoader("xscl.service"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "marked": _marked,
        "rows": partial(_rows, api),
        "call": partial(_call, api),
    }
    by_tag: dict[str, list[tuple[str, str, Any]]] = {}
    problems: dict[str, str] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            tag = (operation.get("tags") or ["more"])[0]
            by_tag.setdefault(tag, []).append((path, method.upper(), operation))
            for status, answer in operation["responses"].items():
                if status >= "4":
                    problems[status] = answer["description"]
    template = environment.get_template("docs.html")
    return template.render(api=api, by_tag=by_tag, problems=sorted(problems.items()))


_Row = tuple[str, str, str]


def _rows(api: Mapping[str, Any], operation: Mapping[str, Any]) -> Iterator[_Row]:
    """Yield name, place and description of an operation's parameters, body fields and answers."""
    for one in operation.get("parameters", ()):
        yield one["name"], one["in"], one.get("description", "")
    for body in list(operation.get("requestBody", {}).get("content", {}).values())[:1]:
        yield from _fields(api, body.get("schema", {}), "body")
    for status, answer in operation["responses"].items():
        if "application/problem+json" in answer.get("content", {}):
            continue  # listed once for all operations
        yield status, "answer", answer.get("description", "")
        for body in list(answer.get("content", {}).values())[:1]:
            yield from _fields(api, body.get("schema", {}), "answer")


def _fields(api: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[_Row]:
    """Return the rows of a schema's fields, each once if several forms of a body have it.

    `where` is the place in the rows.
    """
    rows: dict[_Row, None] = {}
    for each in schema.get("oneOf") or [schema]:
        whole = _followed(api, each)
        whole = _followed(api, whole.get("items", whole))
        needed = whole.get("required", ()) if where == "body" else ()
        for name, field in whole.get("properties", {}).items():
            described = field.get("description") or _followed(api, field).get("description", "")
            rows[name, where, described + (" Needed." if name in needed else "")] = None
    return list(rows)


def _followed(api: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _marked(text: str) -> Markup:
    """Return a text as HTML, with code between backticks marked."""
    parts = (escape(part) for part in text.split("`"))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts)
    )


def _call(api: Mapping[str, Any], operation: Mapping[str, Any], path: str, method: str) -> str:
    """Return a call of an operation with curl."""
    words = ["curl"] if method == "GET" else ["curl", "-X", method]
    content = operation.get("requestBody", {}).get("content", {})
    for kind, body in content.items():
        example = body.get("example") or _example(api, body.get("schema", {}))
        text = example if isinstance(example, str) else json.dumps(example)
        quoted = text.replace("'", "'\\''")
        words += ["-H", f"'Content-Type: {kind}'", "-d", f"'{quoted}'"]
        break
    return " ".join([*words, f"$XSCL{path}"])


def _example(api: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """Return a value of a schema, preferably from its examples."""
    if "$ref" in schema:
        return _example(api, _followed(api, schema))
    if schema.get("oneOf"):
        return _example(api, schema["oneOf"][0])
    if "const" in schema:
        return schema["const"]
    for key in ("examples", "enum"):
        if schema.get(key):
            return schema[key][0]
    if "default" in schema:
        return schema["default"]
    if "anyOf" in schema:
        return _example(api, schema["anyOf"][0])
    match schema.get("type"):
        case "object":
            required = schema.get("required", ())
            return {
                name: _example(api, one)
                for name, one in schema.get("properties", {}).items()
                if name in required or "examples" in one
            }
        case "array":
            return [_example(api, schema.get("items", {}))]
        case kind:
            return {"integer": 1, "number": 1, "boolean": True}.get(str(kind), "...")
