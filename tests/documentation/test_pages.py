"""Each page of the documentation runs from its first block to its last."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.documentation.blocks import blocks
from tests.documentation.session import Session
from tests.project import ROOT

DOCS = ROOT / "docs"
ELSEWHERE = {
    "deliveries.md": "tests/test_docs.py",
    "gallery.md": "tests/xscl/web/test_gallery.py",
    "languages/eql.md": "tests/cep_core/languages/test_eql_guide.py",
    "languages/expressions.md": "tests/cep_core/languages/test_expressions.py",
    "languages/sase.md": "tests/cep_core/languages/test_sase_guide.py",
    "languages/xscl.md": "tests/documentation/test_xscl_guide.py",
}
"""Pages whose examples other tests run, over documents of their own."""
READERS = (
    *("index.md", "tutorial.md", "how-to/*.md"),
    *("languages/c[ae]l*.md", "how-it-works/*.md", "reference/*.md", "upstream/*.md"),
)
USUAL = ("how-to/http-client.md",)
"""Pages of the usual run."""
SPARK = DOCS / "how-to" / "spark.md"
PAGES = sorted(page for pattern in READERS for page in DOCS.glob(pattern))


def _name(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=_name(page), marks=() if _name(page) in USUAL else pytest.mark.slow)
        for page in PAGES
    ],
)
def test_a_reader_does_what_the_page_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    if page == SPARK:
        request.getfixturevalue("spark_session")  # which the page finds
    expected = sum(1 for block in blocks(page) if block.reason is None)
    assert Session(tmp_path).run(page) == expected


def test_every_page_with_blocks_is_run_by_a_test() -> None:
    runnable = {
        _name(page)
        for page in DOCS.rglob("*.md")
        if any(block.reason is None for block in blocks(page))
    }
    assert runnable - set(ELSEWHERE) - {_name(page) for page in PAGES} == set()
    for test in ELSEWHERE.values():
        assert (ROOT / test).is_file()
