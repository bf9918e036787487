"""`GET /docs`: the API on one plain page, made from its OpenAPI document, with nothing to load."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre{font:14px/1.4 ui-monospace,monospace;background:#8881;border-radius:4px}
code{padding:.1em .3em}pre{padding:.7em;overflow:auto}
h3{margin:2rem 0 .3rem;font-size:1rem}h3 code{margin-right:.6em}td{padding:.1em 1em .1em 0}
"""
_SECURITY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


@router.get("/docs")
async def docs(request: Request) -> HTMLResponse:
    """Shows every address, what it takes, and a call with curl."""
    made = getattr(request.app.state, "docs", None)
    if made is None:
        made = request.app.state.docs = "".join(_page(request.app.openapi()))
    return HTMLResponse(made, headers={"Content-Security-Policy": _SECURITY})


def _page(api: Mapping[str, Any]) -> Iterator[str]:
    yield "<!doctype html><html lang=en><meta charset=utf-8><title>xscl: the API</title>"
    yield f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
    yield f"<h1>xscl: the API</h1><p>{escape(api['info']['summary'])} "
    yield "For programs: <a href=/v1/openapi.json>/v1/openapi.json</a> (OpenAPI). "
    yield "Who asks from another machine sends <code>Authorization: Bearer TOKEN</code>. "
    yield "What cannot be done is answered with a problem document (RFC 9457), whose "
    yield "<code>code</code> is stable.</p>"
    by_tag: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            text = "".join(_operation(api, path, method.upper(), operation))
            by_tag.setdefault((operation.get("tags") or ["more"])[0], []).append(text)
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag.capitalize())}</h2>{''.join(operations)}"


def _operation(
    api: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    yield f"<h3><code>{method} {escape(path)}</code>{escape(operation.get('summary', ''))}</h3>"
    for paragraph in operation.get("description", "").split("\n\n"):
        yield f"<p>{escape(paragraph)}</p>"
    rows = [
        f"<tr><td><code>{escape(one['name'])}</code><td>{escape(one['in'])}"
        f"<td>{escape(one.get('description', ''))}"
        for one in operation.get("parameters", ())
    ]
    if rows:
        yield f"<table>{''.join(rows)}</table>"
    yield f"<pre>{escape(_call(api, path, method, operation))}</pre>"


def _call(api: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> str:
    """Return the call with curl."""
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
    """Return a value that a schema allows, of its examples where it has any."""
    if "$ref" in schema:
        return _example(api, api["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
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
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return "..."
