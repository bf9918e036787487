"""The functions that benchmarks time by name exist."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import benchmarks

MODULES = [
    found.name
    for found in pkgutil.iter_modules(benchmarks.__path__)
    if not found.name.startswith(("test_", "__"))
]


def tables() -> Iterator[tuple[str, str, Mapping[str, tuple[Any, str]]]]:
    """Yield the tables of timed places, (owner, attribute) by stage, with module and name."""
    for module in MODULES:
        for name, value in vars(import_module(f"{benchmarks.__name__}.{module}")).items():
            if isinstance(value, dict) and value and all(map(_is_place, value.values())):
                yield module, name, value


def _is_place(value: object) -> bool:
    match value:
        case (owner, str()):
            return isinstance(owner, type) or hasattr(owner, "__file__")
        case _:
            return False


def test_timed_places_are_there() -> None:
    found = set[str]()
    for module, name, places in tables():
        found.add(f"{module}.{name}")
        for stage, (owner, attribute) in places.items():
            assert callable(getattr(owner, attribute, None)), (module, name, stage)
    assert found >= {
        *("mmqjp.STAGE_2", "register.STAGES", "register.REMOVAL", "register.RESTART"),
        *("rss.STAGES", "stage1.STAGES", "views.PARTS"),
        *("sase_workload.STAGES", "sase_workload.SCANNING"),
    }
