"""Addresses of the HTTP API from its OpenAPI document, and the codes of problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

from tools.site.tables import table
from xscl.server.app import ROUTERS
from xscl.service.description import describe
from xscl.service.problems import CODES


@cache
def openapi() -> Mapping[str, Any]:
    """Return the OpenAPI document of the service."""
    app = FastAPI(title="xscl", version="1")
    for router in ROUTERS:
        app.include_router(router, prefix="/v1")
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
                parts.append(table(("parameter", "in", "meaning"), rows))
            answers = [one for one in operation["responses"] if one.startswith("2")]
            parts.append(f"Success: {', '.join(answers)}.\n")
    return "\n".join(parts)


def _parameters(operation: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    for one in operation.get("parameters", ()):
        yield f"`{one['name']}`", one["in"], one.get("description", "")
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content.get("schema", {})
        name = schema.get("$ref", "").rpartition("/")[2]
        fields = openapi()["components"]["schemas"].get(name, {}).get("properties", {})
        for field, described in fields.items():
            yield f"`{field}`", f"body, {kind}", described.get("description", "")
        if not fields:
            yield "the body", kind, schema.get("description", "")


def errors() -> str:
    """Return the codes of problem documents by status."""
    rows = (
        (f"{status} {HTTPStatus(status).phrase}", meaning, ", ".join(f"`{one}`" for one in codes))
        for status, (meaning, codes) in CODES.items()
    )
    return table(("status", "meaning", "codes"), rows)
