"""The OpenAPI document describes every field, with examples, and the form of problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from markupsafe import escape

import feeds
import xscl
from feeds.errors import FeedError, SpoolError
from feeds.formats.opml import read_list
from xscl.errors import DocumentError, XsclError
from xscl.server.app import ROUTERS
from xscl.service import description, problems
from xscl.service.description import describe
from xscl.service.problems import CODES
from xscl.service.routes import inspection, syndication
from xscl.service.routes.subscriptions import read_rows

_TELLS_ENOUGH = ("examples", "example", "enum", "const", "default", "$ref")


@pytest.fixture(scope="module")
def api() -> Mapping[str, Any]:
    routes = [one for of in (*ROUTERS, syndication.secret_router) for one in of.routes]
    app = FastAPI(title="xscl", summary="What it is.", routes=routes)
    describe(app)
    return app.openapi()


def fields(api: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, schema in api["components"]["schemas"].items():
        for field, told in schema.get("properties", {}).items():
            yield f"{name}.{field}", told


def _words(told: Mapping[str, Any]) -> bool:
    return bool(told.get("description")) or "$ref" in told  # a choice says itself what it is


def operations(api: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for path, methods in (*api["paths"].items(), *api["webhooks"].items()):
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def test_every_field_has_words_and_an_example(api: Mapping[str, Any]) -> None:
    found = dict(fields(api))
    assert len(found) > 100
    assert [name for name, told in found.items() if not _words(told)] == []
    enough = {
        name: any(word in told for word in _TELLS_ENOUGH) or "$ref" in str(told)
        for name, told in found.items()
    }
    # what the service sends is shown as a whole
    lacking = [name for name, is_enough in enough.items() if not is_enough]
    assert [one for one in lacking if not one.startswith(("Sent.", "DataSent."))] == []


def test_every_parameter_has_words(api: Mapping[str, Any]) -> None:
    lacking = [
        (name, parameter["name"])
        for name, operation in operations(api)
        for parameter in operation.get("parameters", ())
        if not parameter.get("description")
    ]
    assert lacking == []


def test_problems_are_described_with_codes_that_there_are(api: Mapping[str, Any]) -> None:
    answers = api["paths"]["/v1/subscriptions/{name}"]["put"]["responses"]
    assert list(answers["422"]["content"]) == ["application/problem+json"]
    assert "`query`" in answers["422"]["description"]
    assert {"401", "404", "429", "503"} < set(answers)
    sources = "".join(
        path.read_text("utf-8")
        for package in (xscl, feeds)
        for path in Path(str(package.__file__)).parent.rglob("*.py")
        if path.name != "problem_codes.py"
    )
    for _, codes in CODES.values():
        assert [one for one in codes if f'"{one}"' not in sources and one not in _MADE] == []


_MADE = {
    *("not_found", "method_not_allowed"),
    *("unknown_feed", "unknown_stream", "unknown_address", "unknown_user", "unknown_file"),
    "unknown_match",
}
"""Codes that are put together."""

_UNTOLD = {
    "document",  # of the root; what is raised has another
    *("home", "home_in_use", "pipeline", "cannot_listen"),  # of a service that does not begin
    *("missing_extra", "registrations"),  # of commands
    *("null", "url", "feed_internal"),  # of rows of Spark
}


_RAISED = re.compile(
    r'^    code = "(\w+)"|reason_code="(\w+)"|__init__\(\s*"([a-z_]+)"'
    r'|\b(?:RefusedAddress|MalformedDocument|Problem)\(\s*"(\w+)"',
    re.MULTILINE,
)
"""Codes of classes of errors, and of errors that are raised."""


def _raised() -> Iterator[tuple[str, str]]:
    """Yield each code in the source that may be answered, with where it is."""
    within = Path(str(xscl.__file__)).parent
    paths = [*within.rglob("*.py"), *Path(str(feeds.__file__)).parent.rglob("*.py")]
    for path in paths:
        if {within / "cli", within / "client"} & set(path.parents):
            continue
        text = path.read_text("utf-8")
        yield from (("".join(codes), path.name) for codes in _RAISED.findall(text))
        for what in re.findall(r'\bnot_found\(\s*"(\w+)"', text):
            yield f"unknown_{what}", path.name


def test_every_code_of_the_source_is_in_the_table() -> None:
    told = {code for _, codes in CODES.values() for code in codes}
    found = set(_raised())
    assert {"query", "sql_not_select", "url_port", "unknown_address", "not_a_list"} < dict(
        found
    ).keys()
    assert {one for one in found if one[0] not in told | _UNTOLD} == set()


_STATUS = {
    400: "feeds reserved_name account too_many_endpoints too_many_addresses",
    403: "quota_exceeded",
    404: "unknown_subscription unknown_token unknown_endpoint",
    409: "name_taken stream_cycle streams_too_deep stream_in_use",
    422: "query subscription_name wrong_tag label stream_name wrong_row too_long sql",
    429: "sql_busy busy too_many_requests",
    503: "sql_unavailable disk_full stopping store evaluation",
}


def test_a_code_stands_at_the_status_of_its_error() -> None:
    """That of the nearest class with a code of the table, or 400."""
    statuses = {code: status for status, codes in _STATUS.items() for code in codes.split()}
    assert all(code in CODES[status][1] for code, status in statuses.items())
    for kind in _below(XsclError):
        if kind.code in _UNTOLD or kind.__module__.startswith(("xscl.cli.", "xscl.client.")):
            continue
        codes = (one.__dict__.get("code") for one in kind.__mro__)
        wanted = next((statuses[one] for one in codes if one in statuses), 400)
        assert kind.code in CODES[wanted][1], kind


def _below(kind: type[XsclError]) -> Iterator[type[XsclError]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)


def test_an_error_without_a_listed_code_has_the_status_of_its_kind() -> None:
    for error, status in (
        (XsclError("it failed"), 400),
        (DocumentError("it failed", reason_code="unlisted"), 422),
        (FeedError("unlisted", "it failed"), 422),
        (SpoolError("it failed", "spool_in_use"), 503),
    ):
        assert problems.of_error(error).status == status


def test_the_examples_of_questions_and_imports_can_be_sent(api: Mapping[str, Any]) -> None:
    page = description._page(api)
    assert "export XSCL=http://" in page
    for name in ("TryAsked", "ExplainAsked", "WhyAsked"):
        (example,) = api["components"]["schemas"][name]["examples"]
        kind = getattr(inspection, name)
        asked = kind.model_validate(example)
        assert (asked.query is None) != (asked.subscription is None)
        assert escape(json.dumps(example)) in page
    (wanted,) = read_rows(_example(api, "subscriptions", "application/x-ndjson"), "")
    assert list(read_rows(_example(api, "subscriptions", "text/csv"), "text/csv")) == [wanted]
    (outline,) = read_list(_example(api, "feeds", "text/plain"))
    assert [one.url for one in read_list(_example(api, "feeds", "text/x-opml"))] == [outline.url]


def _example(api: Mapping[str, Any], what: str, kind: str) -> bytes:
    content = api["paths"][f"/v1/{what}:import"]["post"]["requestBody"]["content"]
    return str(content[kind]["example"]).encode()
