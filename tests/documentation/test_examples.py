"""The programs of examples/ run and find what they say (typed_program.py: tests/xscl/client)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from examples import feeds_and_webhook, market_data, orders_and_invoices
from tests.project import ROOT

EXAMPLES = ROOT / "examples"
RISES = [
    ("rise", ("IBM", 100.0, 104.0)),
    ("rise", ("IBM", 101.0, 104.0)),
    ("rise", ("IBM", 104.0, 107.0)),
]


def test_every_program_is_listed() -> None:
    programs = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".ipynb")}
    for page in (EXAMPLES / "README.md", ROOT / "docs" / "how-to" / "examples.md"):
        listed = set(re.findall(r"\b\w+\.(?:py|ipynb)\b", page.read_text("utf-8")))
        assert listed == programs - {"__init__.py"}


def test_orders_and_invoices() -> None:
    assert list(orders_and_invoices.found()) == [
        ("another total", '<disagree order="17" ordered="99" invoiced="100"/>'),
        ("paid", '<paid order="18" by="Ann"/>'),
        (
            "no invoice",
            "<result><order><number>19</number><total>60</total></order></result>",
        ),
    ]


def test_market_data() -> None:
    found = list(market_data.found())
    assert [one for one in found if one[0] == "rise"] == RISES
    assert [values for query, values in found if query == "run"] == [
        ("IBM", 3, 104.0),
        ("IBM", 3, 107.0),
        ("IBM", 4, 107.0),
    ]
    assert ("fall", ("XYZ", 50.0, 49.0)) in found
    assert found[-1] == ("rises", ("IBM", 3))


@pytest.mark.slow
def test_feeds_and_webhook() -> None:
    assert feeds_and_webhook.found() == ("Ferry stops", "FERRY STOPS")


@pytest.mark.slow
@pytest.mark.spark
def test_two_executors() -> None:
    """An executor is killed, and the matches are those of one engine."""
    command = [sys.executable, "-m", "examples.two_executors"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is killed" in done.stdout
    assert "no invoice: 38 matches on executors, 38 of one engine" in done.stdout


def test_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells run unchanged; the table is a data frame if pandas or Polars is installed."""
    notebook = json.loads((EXAMPLES / "library.ipynb").read_text("utf-8"))
    names: dict[str, Any] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), "library.ipynb", "exec"), names)
    pairs = [match.documents for match in names["matches"]]
    assert sorted(pairs) == [("b1", "r2"), ("b2", "r1"), ("b2", "r3")]
    assert len(names["table"]) == 3
    assert "FAILS" in capsys.readouterr().out
