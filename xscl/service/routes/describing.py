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
html{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
code,pre{font:14px/1.4 ui-monospace,monospace;background:#8881;border-radius:4px}
code{padding:.1em .3em}pre{padding:.7em;overflow:auto}
h3{margin:2rem 0 .3rem;font-size:1rem}h3 code{margin-right:.6em}
td{padding:.1em 1em .1em 0;vertical-align:top}
p,h3,td{overflow-wrap:anywhere}td:nth-child(-n+2){overflow-wrap:normal}table{width:100%}
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
    yield "In the calls <code>$XSCL</code> is where the service is: "
    yield "<code>export XSCL=http://127.0.0.1:8425</code>. "
    yield "What cannot be done is answered with a problem document (RFC 9457), whose "
    yield "<code>code</code> is stable.</p>"
    yield f"<h2>Problems</h2><table>{''.join(_problems(api))}</table>"
    by_tag: dict[str, list[str]] = {}
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            text = "".join(_operation(api, path, method.upper(), operation))
            by_tag.setdefault((operation.get("tags") or ["more"])[0], []).append(text)
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag.capitalize())}</h2>{''.join(operations)}"
    yield "<h2>What the service sends</h2>"
    for name, methods in api.get("webhooks", {}).items():
        for method, operation in methods.items():
            yield from _described(api, f"{method.upper()} {name}", operation)


def _problems(api: Mapping[str, Any]) -> Iterator[str]:
    """Yield a row for each status that says why a request cannot be done."""
    told: dict[str, str] = {}
    for methods in api["paths"].values():
        for operation in methods.values():
            for status, answer in operation["responses"].items():
                if status >= "4":
                    told[status] = answer["description"]
    for status, meaning in sorted(told.items()):
        yield f"<tr><td><code>{status}</code><td>{_marked(meaning)}"


def _operation(
    api: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]
) -> Iterator[str]:
    yield from _described(api, f"{method} {path}", operation)
    yield f"<pre>{escape(_call(api, path, method, operation))}</pre>"


def _described(api: Mapping[str, Any], heading: str, operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an operation is, takes and answers."""
    yield f"<h3><code>{escape(heading)}</code>{escape(operation.get('summary', ''))}</h3>"
    for paragraph in operation.get("description", "").split("\n\n"):
        yield f"<p>{_marked(paragraph)}</p>"
    rows = [
        _row(one["name"], one["in"], one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    for body in list(operation.get("requestBody", {}).get("content", {}).values())[:1]:
        rows += _fields(api, body.get("schema", {}), "body")
    for status, answer in operation["responses"].items():
        if "application/problem+json" in answer.get("content", {}):
            continue  # all in one table above
        rows.append(_row(status, "answer", answer.get("description", "")))
        for body in list(answer.get("content", {}).values())[:1]:
            rows += _fields(api, body.get("schema", {}), "answer")
    if rows:
        yield f"<table>{''.join(rows)}</table>"


def _fields(api: Mapping[str, Any], schema: Mapping[str, Any], where: str) -> list[str]:
    """Return the rows of a body's fields, once each if it has one of several forms."""
    rows: dict[str, None] = {}
    for each in schema.get("oneOf") or [schema]:
        whole = _followed(api, each)
        whole = _followed(api, whole.get("items", whole))
        needed = whole.get("required", ()) if where == "body" else ()
        for name, field in whole.get("properties", {}).items():
            told = field.get("description") or _followed(api, field).get("description", "")
            rows[_row(name, where, told + (" Needed." if name in needed else ""))] = None
    return list(rows)


def _followed(api: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found


def _row(name: str, where: str, told: str) -> str:
    return f"<tr><td><code>{escape(name)}</code><td>{where}<td>{_marked(told)}"


def _marked(text: str) -> str:
    """Return a text as HTML, what stands between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


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
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return "..."
