"""`GET /docs`: the OpenAPI document rendered as one plain page without scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

_SECURITY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The style sheet is that of the web UI."""


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
    """Yield name, place and description of what an operation takes and answers."""
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
    """Return the rows of a body's fields, without duplicates if it has several forms."""
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
