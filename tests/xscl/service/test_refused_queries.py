"""A query that is refused is a 4xx with its place over HTTP, and a caret on the command line."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

import xscl
from tests.xscl.commandline import called
from tests.xscl.service.conftest import ok

REFUSED = {
    "what reads more": ("xscl", 'S//item[doc("file:///etc/hosts")//title = title]'),
    "what is no XPath": ("xscl", "S//item[title contains 'rust']"),
    "a capitalized name": ("xscl", "S//item[title = Rust]"),
    "nested brackets": ("xscl", "S//a" + "[./b" * 101 + "]" * 101),
    "a broken string": ("xscl", "S//a[. = 'x]"),
    "a type": ("cel", "SELECT n + s AS m FROM E"),
    "nested parentheses": ("cel", "SELECT * FROM FILTER{" + "(" * 500 + "n=1" + ")" * 500 + "}(E)"),
    "many components": ("sase", "EVENT SEQ(" + ", ".join(f"E e{i}" for i in range(65)) + ")"),
    "a negated attribute": ("sase", "EVENT SEQ(E a, !(F f), E b) WHERE w = 1"),
    "many operators": ("eql", "SELECT * FROM " + ";".join(f"E e{i}" for i in range(300))),
}


@pytest.mark.parametrize(("language", "text"), REFUSED.values(), ids=list(REFUSED))
def test_over_http(operator: httpx.Client, language: str, text: str) -> None:
    for name, kinds in (("E", {"n": "int", "s": "str"}), ("F", {"w": "int"})):
        operator.put(f"/v1/streams/{name}", json={"attributes": kinds})
    answer = operator.put("/v1/subscriptions/refused", json={"query": text, "language": language})
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["code"].startswith("query")
    assert problem["line"] == 1
    assert 1 <= problem["column"] <= len(text) + 1
    assert ok(operator.get("/v1/health"))


@pytest.mark.parametrize(("language", "text"), REFUSED.values(), ids=list(REFUSED))
def test_on_the_command_line(tmp_path: Path, language: str, text: str) -> None:
    with xscl.Engine(tmp_path / "state.duckdb") as engine:
        engine.stream("E", attributes={"n": int, "s": str})
        engine.stream("F", attributes={"w": int})
    data = ("--data", str(tmp_path))
    answer = called("subscribe", "refused", text, "--language", language, *data)
    assert answer.exit_code == 2, answer.output
    assert "line 1, column" in answer.stderr
    assert "^" in answer.stderr
    assert "Traceback" not in answer.output
