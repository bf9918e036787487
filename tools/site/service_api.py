"""Addresses of the HTTP API from its OpenAPI document, and the codes of problems."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from tools.site.tables import table
from xscl.server.app import PUBLIC, ROUTERS
from xscl.service.description import describe
from xscl.service.problems import CODES


@cache
def openapi() -> Mapping[str, Any]:
    """Return the OpenAPI document of the service."""
    routes = [route for router in (*ROUTERS, *PUBLIC) for route in router.routes]
    app = FastAPI(title="xscl", version="1", routes=routes)
    describe(app)
    return app.openapi()


def http() -> str:
    """Return each address with its parameters and what it answers."""
    parts = []
    for path, methods in openapi()["paths"].items():
        for method, operation in methods.items():
            parts.append(f"## {method.upper()} `{path}`\n\n{operation['summary']}.\n")
            if text := operation.get("description"):
                parts.append(text.rstrip() + "\n")
            if rows := list(_parameters(operation)):
                parts.append(table(("parameter", "in", "type", "meaning"), rows))
            answers = operation["responses"]
            success = (_answer(status, answers[status]) for status in answers if status < "4")
            parts.append(f"Success: {', '.join(success)}.\n")
    schemas = openapi()["components"]["schemas"].items()
    types = ((f"`{name}`", _described(schema)) for name, schema in sorted(schemas))
    return "\n".join([*parts, "## Types\n", table(("type", "fields"), types)])


def _described(schema: Mapping[str, Any]) -> str:
    """Return the fields of a type with their types."""
    fields = schema.get("properties", {}).items()
    return ", ".join(f"`{name}` {_type(field)}" for name, field in fields) or _type(schema)


def _answer(status: str, answer: Mapping[str, Any]) -> str:
    """Return a status with the types of bodies that it may have."""
    bodies = (
        _type(body.get("schema", {})) if kind == "application/json" else kind
        for kind, body in answer.get("content", {}).items()
    )
    shown = ", ".join(f"`{body}`" for body in bodies if body)
    return f"{status} ({shown})" if shown else status


_Parameter = tuple[str, str, str, str]


def _parameters(operation: Mapping[str, Any]) -> Iterator[_Parameter]:
    for one in operation.get("parameters", ()):
        kind = _type(one["schema"]) + (", needed" if one.get("required") else "")
        yield f"`{one['name']}`", one["in"], kind, one.get("description", "")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        forms = [_named(one) for one in schema.get("oneOf", [schema])]
        fields = list(dict.fromkeys(row for form in forms for row in _fields(form, kind)))
        yield from fields or [("the body", kind, _type(schema), schema.get("description", ""))]


def _fields(schema: Mapping[str, Any], kind: str) -> Iterator[_Parameter]:
    for name, field in schema.get("properties", {}).items():
        needed = ", needed" if name in schema.get("required", ()) else ""
        yield f"`{name}`", f"body, {kind}", _type(field) + needed, field.get("description", "")


def _named(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema, that of its name if it has one."""
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = openapi()["components"]["schemas"][name] if name else schema
    return found


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a value, its words if it has few, and its default."""
    whole = _named(schema)
    value = schema.get("default")
    shown = value if isinstance(value, str) else json.dumps(value)
    default = "" if value in (None, "") else f", default `{shown}`"
    if words := whole.get("enum") or [whole[name] for name in ("const",) if name in whole]:
        return " ".join(f"`{word}`" for word in words) + default
    if whole is not schema:
        return str(whole["title"])
    if "anyOf" in schema:
        kinds = (_type(one) for one in schema["anyOf"] if one.get("type") != "null")
        return " or ".join(dict.fromkeys(kinds)) + default
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}{default}"
    return str(schema.get("type", "value")) + default


def errors() -> str:
    """Return the codes of problem documents by status."""
    rows = (
        (f"{status} {HTTPStatus(status).phrase}", meaning, ", ".join(f"`{one}`" for one in codes))
        for status, (meaning, codes) in CODES.items()
    )
    return table(("status", "meaning", "codes"), rows)
