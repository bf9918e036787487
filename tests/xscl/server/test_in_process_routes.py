"""Commands without a service: each path of a module of routes that answers them leads to it."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from fastapi.routing import APIRoute

from xscl.server.in_process import _ROUTES

OF_SERVICES = {"/subscriptions/x/explain", "/me", "/me/data"}
"""Paths that no command asks for: `explain` posts its query, and an operator has no account."""


@pytest.mark.parametrize("module", sorted(set(_ROUTES.values())))
def test_the_paths_of_a_module_lead_to_it(module: str) -> None:
    routes = import_module(f"xscl.service.routes.{module}").router.routes
    paths = {re.sub(r"\{[^}]*\}", "x", one.path) for one in routes if isinstance(one, APIRoute)}
    assert paths - OF_SERVICES
    for path in paths - OF_SERVICES:
        found = next(name for begin, name in _ROUTES.items() if re.match(begin, f"/v1{path}"))
        assert found == module, path
