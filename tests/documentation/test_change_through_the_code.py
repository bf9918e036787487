"""Pages for maintainers name code that exists, first the one of a document through the code."""

from __future__ import annotations

import re
from pkgutil import resolve_name

import pytest

from tests.project import ROOT

PAGE = ROOT / "docs" / "internals" / "a-change-through-the-code.md"
CODE = re.findall(r"`([^`\n]+)`", PAGE.read_text("utf-8"))
PACKAGES = ("xscl", "templates", "cep_core", "feeds")
DOTTED = sorted({one for one in CODE if re.fullmatch(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+", one)})
PATHS = sorted({one for one in CODE if re.fullmatch(r"(?:\w+/)+\w+(?:\.\w+)?|\w+/\w+", one)})


def test_the_page_names_code() -> None:
    assert len(DOTTED) > 40
    assert len(PATHS) > 8
    assert 700 <= len(PAGE.read_text("utf-8").split()) <= 1_000


@pytest.mark.parametrize("name", DOTTED)
def test_a_name_of_code_exists(name: str) -> None:
    assert resolve_name(name) is not None


@pytest.mark.parametrize("path", PATHS)
def test_a_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_the_other_pages_name_code_that_exists() -> None:
    folders = (ROOT / "docs" / "internals", ROOT / "docs" / "decisions")
    pages = [ROOT / "ARCHITECTURE.md", *(page for one in folders for page in one.glob("*.md"))]
    code = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")
    named = {name for page in pages for name in code.findall(page.read_text("utf-8"))}
    assert len(named) > 60
    for name in sorted(one for one in named if not one.endswith((".py", ".toml"))):
        assert resolve_name(name) is not None


def test_wrong_names_are_seen() -> None:
    with pytest.raises(AttributeError):
        resolve_name("xscl.engine.ingest.Ingest.pushes")
    with pytest.raises(AttributeError):
        resolve_name("xscl.engine.ingests.Ingest")
