"""Commands without a service: each path of a module of routes that answers them leads to it."""

from __future__ import annotations

import re
from importlib import import_module

import pytest
from fastapi.routing import APIRoute

from xscl.server.in_process import _ROUTES


@pytest.mark.parametrize(
    "module", sorted({*_ROUTES.values()} - {"inspection", "tokens", "subscriptions"})
)
def test_the_paths_of_a_module_lead_to_it(module: str) -> None:
    routes = import_module(f"xscl.service.routes.{module}").router.routes
    paths = [
        re.sub(r"\{[^}]*\}", "x", route.path) for route in routes if isinstance(route, APIRoute)
    ]
    assert paths
    for path in paths:
        found = next(name for begin, name in _ROUTES.items() if re.match(begin, f"/v1{path}"))
        assert found == module, path
