"""The calls of the client against the API's operations: what is reached, and what is not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute

from xscl.client import Client, calls
from xscl.client.calls import Call, Listing
from xscl.client.events import EventReader
from xscl.server.app import ROUTERS

LEFT_OUT = re.compile(
    r"/v1/(?:accounts|tokens|me|metrics|backup)\b"  # for the command line, the operator's page
    r"|/(?:addresses|endpoints|feed\.)"  # set up once, and feeds for feed readers
    r"|/sql/(?:examples|relations)|GET .*/explain"  # relations of joins; what a call reaches, too
)


def operations() -> dict[str, re.Pattern[str]]:
    """Return the operations of the OpenAPI description, and patterns of requests for them."""
    routes = [route for router in ROUTERS for route in router.routes]
    described = [one for one in routes if isinstance(one, APIRoute) and one.include_in_schema]
    found = {f"{way} /v1{one.path_format}" for one in described for way in one.methods or ()}
    return {one: re.compile(re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(one))) for one in found}


def requests() -> set[str]:
    """Return the request of each call, made with an `x` or an empty list for what it requires."""
    found = set()
    methods = {name for name in dir(Client) if not name.startswith("_") and hasattr(calls, name)}
    for name in methods:
        make: Callable[..., Call[Any] | Listing[Any]] = getattr(calls, name)
        required = [
            () if str(parameter.annotation).startswith("Iterable") else "x"
            for parameter in inspect.signature(make).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        ]
        made = make(*required)
        found.add(f"GET {made.path}" if isinstance(made, Listing) else f"{made.method} {made.path}")
    reader = EventReader()
    for subscription in (None, "x"):
        request = reader.request(subscription)
        found.add(f"{request['method']} {request['url']}")
    return found


def test_the_client_reaches_all_operations_but_those_that_are_listed() -> None:
    patterns, made = operations(), requests()
    reached = {
        operation
        for operation, pattern in patterns.items()
        if any(pattern.fullmatch(request) for request in made)
    }
    assert {one for one in patterns if not LEFT_OUT.search(one)} == reached
    for request in made:
        assert any(pattern.fullmatch(request) for pattern in patterns.values()), request
