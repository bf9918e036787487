"""Statements that analyse whole tables."""

import inspect
import pkgutil
import re
from importlib import import_module

from xscl.store import queries
from xscl.store.queries import visible_rows
from xscl.store.queries.analysis import Analysis


def _read(text: str) -> set[str]:
    return set(re.findall(r"\bstate\.(\w+)", text))


def test_an_analysis_names_the_tables_that_it_reads() -> None:
    names = [one.name for one in pkgutil.iter_modules(queries.__path__)]
    modules = [import_module(f"{queries.__name__}.{name}") for name in names]
    found = {
        id(value): value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Analysis)
    }
    assert found
    for one in found.values():
        assert set(one.tables) == _read(one.query), one.query


def test_a_snapshot_names_the_tables_that_it_reads() -> None:
    read = _read(inspect.getsource(visible_rows)) | {"subscription", "retired"}
    assert set(visible_rows.TABLES) == read
    assert len(visible_rows.TABLES) == len(read)
