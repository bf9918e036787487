"""Statements that analyse whole tables."""

import inspect
import pkgutil
import re
from contextlib import closing
from importlib import import_module

import pyarrow as pa

from xscl.store import queries
from xscl.store.queries import visible_rows
from xscl.store.queries.analysis import Analysis, analysed
from xscl.store.queries.relations import RELATIONS
from xscl.store.store import Store


def _read(text: str) -> set[str]:
    return set(re.findall(r"\bstate\.(\w+)", text))


def _analyses() -> list[Analysis]:
    names = [one.name for one in pkgutil.iter_modules(queries.__path__)]
    modules = [import_module(f"{queries.__name__}.{name}") for name in names]
    values = [value for module in modules for value in vars(module).values()]
    return list({id(one): one for one in values if isinstance(one, Analysis)}.values())


def test_an_analysis_names_the_tables_that_it_reads() -> None:
    found = _analyses()
    assert found
    for one in found:
        assert set(one.tables) == _read(one.query), one.query


def test_columns_that_are_read_are_named() -> None:
    """Else they are null (`xscl.store.queries.analysis.words`)."""
    texts = [one.query for one in _analyses()] + [one.query for one in RELATIONS]
    for query in (*texts, inspect.getsource(visible_rows.visible_rows)):
        named = re.sub(r"count\(\*\)", "", query)
        assert re.search(r"\bSELECT (DISTINCT )?\*|\.\*|COLUMNS\(|\(FROM\b", named) is None, query


def test_a_snapshot_names_the_tables_that_it_reads() -> None:
    asks = (visible_rows.visible_rows, visible_rows._called)
    read = _read("".join(inspect.getsource(one) for one in asks)) | {"subscription", "retired"}
    assert set(visible_rows.TABLES) == read
    assert len(visible_rows.TABLES) == len(read)


def test_an_analysis_reads_stored_and_lent_tables() -> None:
    asked = Analysis(
        ("stream",),
        "SELECT name, lateness * factor AS product, [name] AS names FROM state.stream"
        " JOIN by_name USING (name) WHERE lateness > ? ORDER BY name",
    )
    columns = {"live": False, "attributes": None}
    with closing(Store(None)) as store:
        store.insert_rows(
            "state.stream",
            ({"name": name, "lateness": n, **columns} for n, name in enumerate("STU")),
        )
        for factor in (2, 3):
            lent = {"by_name": pa.table({"name": ["S", "T", "U"], "factor": [factor] * 3})}
            assert list(analysed(store, asked, [0], lent)) == [
                {"name": "T", "product": factor, "names": ["T"]},
                {"name": "U", "product": 2 * factor, "names": ["U"]},
            ]
