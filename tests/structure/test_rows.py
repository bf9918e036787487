"""Rows of the database and values of pages are read by names, not by positions."""

from __future__ import annotations

import pytest

from tests.project import ROOT
from tests.structure.rows import positions_in, positions_in_template, product_modules

TEMPLATES = ROOT / "xscl" / "web" / "templates"


@pytest.mark.parametrize("package", ["xscl", "templates", "cep_core", "feeds"])
def test_no_module_reads_or_writes_rows_by_position(package: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{one.line}: {one.what}"
        for path in product_modules(ROOT / package)
        for one in positions_in(path.read_text("utf-8"))
    ]
    assert found == []


def test_no_template_reads_values_by_position() -> None:
    paths = sorted(TEMPLATES.glob("*.html"))
    assert len(paths) > 20
    found = [
        f"{path.name}:{one.line}: {one.what}"
        for path in paths
        for one in positions_in_template(path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        'rows = store.fetch("SELECT * FROM state.result")',
        'rows = store.fetch(f"SELECT d.*, t.xml FROM {table} d")',
        'rows = store.fetch("SELECT r.qid, c.* EXCLUDE (doc) FROM state.result r")',
        'rows = store.fetch("SELECT DISTINCT * FROM state.result")',
        'VIEW = """CREATE VIEW v AS\n    SELECT *\n    FROM state.result"""',
        'rows = store.fetch("FROM mark.store")',
        'rows = store.fetch("SELECT a FROM (FROM state.x UNION ALL SELECT a FROM y)")',
        'store.fetch("INSERT INTO state.star VALUES (?, ?)", row)',
        'def f():\n    return [Letter(*row) for row in store.fetch("SELECT a, b FROM c")]',
        'def f():\n    rows = store.fetch("SELECT a, b FROM c")\n    return Letter(*rows[0])',
        'def f():\n    for name, *rest in store.fetch("SELECT a, b FROM c"):\n        use(rest)',
        "def f():\n    while some := rows.fetchmany(9):\n        return [X(*row) for row in some]",
    ],
)
def test_positions_are_found(source: str) -> None:
    assert len(positions_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        'rows = store.fetch("SELECT count(*), a * b FROM state.result")',
        'example = "SELECT * FROM matches LIMIT 20"',
        'text = f"SELECT * FROM ({statement}) WHERE x"',
        'def f():\n    """SELECT * FROM state.result"""',
        'empty = raw.sql(f"FROM {table} LIMIT 0")',
        'store.fetch("INSERT INTO state.star (account, match) VALUES (?, ?)", row)',
        'def f():\n    return [use(a, b) for a, b in store.fetch("SELECT a, b FROM c")]',
        'def f():\n    return [Letter(**row) for row in store.rows("SELECT a, b FROM c")]',
    ],
)
def test_names_are_no_positions(source: str) -> None:
    assert positions_in(source) == []


def test_positions_in_templates_are_found() -> None:
    text = "{% if a[0] %}{{ x }}[1]{% endif %}\n{% for a, b, c in rows %}{% for a, b in pairs %}"
    assert [one.line for one in positions_in_template(text)] == [1, 2]
