"""The README: its size, its picture, and every block as its reader would run it."""

from __future__ import annotations

import contextlib
import io
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.documentation.blocks import blocks
from tests.documentation.session import Session
from tests.project import ROOT
from xscl.web.gallery import cases

PAGE = ROOT / "README.md"
README = PAGE.read_text("utf-8")
BLOCKS = list(blocks(PAGE))
EXAMPLE, PRINTED = next(
    (block.text, after.text) for block, after in pairwise(BLOCKS) if block.language == "python"
)
"""The first example, and what it prints."""


def test_it_is_short() -> None:
    assert README.count("\n") <= 150


def test_it_begins_with_a_picture_and_a_query_of_the_gallery() -> None:
    opening = README[: README.index("## ")]
    (picture,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", opening)
    assert (ROOT / picture).stat().st_size < 200_000
    (query,) = (block.text.strip() for block in BLOCKS if block.language == "xscl")
    assert query in {case.query for case in cases()}  # tests/xscl/web/test_gallery.py


def test_the_example_prints_what_it_says() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(EXAMPLE, "README.md", "exec"), {})
    assert printed.getvalue() == PRINTED


def test_a_reader_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Session(tmp_path).run(PAGE)


def test_make_has_what_is_named() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = re.findall(r"\bmake ([a-z]+)\b", README)
    assert {"demo", "build", "docs"} <= set(named)
    assert [one for one in named if f"\n{one}: " not in makefile] == []
