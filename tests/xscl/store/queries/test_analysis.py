"""Statements that analyse whole tables."""

import pkgutil
from contextlib import closing
from importlib import import_module

import pyarrow as pa

from xscl.store import queries
from xscl.store.queries.analysis import analysed, tables_of
from xscl.store.queries.tables import RELATIONS as CHUNKED
from xscl.store.queries.tables import TABLES
from xscl.store.store import Store


def _queries() -> list[str]:
    names = [one.name for one in pkgutil.iter_modules(queries.__path__)]
    modules = [import_module(f"{queries.__name__}.{name}") for name in names]
    values = {value for module in modules for value in vars(module).values() if type(value) is str}
    return [value for value in values if "state." in value and "SELECT" in value]


def test_the_stored_tables_of_a_query_are_known() -> None:
    for query in _queries():
        assert tables_of(query) <= {*TABLES, *CHUNKED}, query


def test_an_analysis_reads_stored_and_lent_tables() -> None:
    asked = (
        "SELECT name, lateness * factor AS product, [name] AS names FROM state.stream"
        " JOIN by_name USING (name) WHERE lateness > ? ORDER BY name"
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
