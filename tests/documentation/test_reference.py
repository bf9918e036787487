"""The reference is made from the program, and other pages name only what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import xscl
from tests.documentation.blocks import prose
from tests.documentation.pictures import IMAGES, pictures
from tests.project import ROOT
from tools.site.commands import leaves
from tools.site.generated import PART, PARTS, completed
from tools.site.links import PROJECT, rewritten
from tools.site.service_api import openapi
from xscl.service.problems import STATUS
from xscl.store.queries.relations import PUBLIC

DOCS = ROOT / "docs"
GUIDES = [ROOT / "README.md", DOCS / "tutorial.md", *sorted(DOCS.glob("how-to/*.md"))]
NAMING = [*GUIDES, DOCS / "deliveries.md", *sorted(DOCS.glob("reference/*.md"))]
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
FOREIGN = {"--name-only", "--build-arg", "--profile", "--data-binary", "--system", "--home-dir"}
"""Options of other programs: docker, curl, useradd, systemctl, pip, http.server, spark-submit, and
of `python -m benchmarks`."""
FOREIGN |= {"--now", "--upgrade", "--bind", "--archives", "--quick"}
WORDS = 30
SHARE = 0.05


def _named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def test_pages_have_each_part_once_as_the_program_is() -> None:
    pages = {page: page.read_text("utf-8") for page in DOCS.rglob("*.md")}
    assert sorted(part[2] for text in pages.values() for part in PART.finditer(text)) == sorted(
        PARTS
    )
    changed = [page.name for page, text in pages.items() if completed(text) != text]
    assert not changed, "make reference"


def test_a_part_replaces_what_stands_between_its_marks() -> None:
    page = completed("before\n\n<!-- generated: errors -->\nold\n<!-- end: errors -->\n\nafter")
    assert page.startswith("before\n\n<!-- generated: errors -->\n\n| status | meaning | codes |\n")
    assert page.endswith("|\n\n<!-- end: errors -->\n\nafter")
    assert "old" not in page
    for code in STATUS:
        assert f"`{code}`" in page


def test_each_address_is_listed() -> None:
    listed = PARTS["http"]()
    for path, methods in openapi()["paths"].items():
        for method in methods:
            assert f"\n## {method.upper()} `{path}`\n" in f"\n{listed}"


def test_each_public_name_and_relation_is_listed() -> None:
    names = PARTS["python"]()
    for name in xscl.__all__:
        assert f"### xscl.{name}\n" in names
    assert "push(documents: " in names
    relations = PARTS["relations"]()
    for name in PUBLIC:
        assert f"## {name}\n" in relations
    assert "| `node1` |" in relations


@pytest.mark.parametrize("page", NAMING, ids=_named)
def test_a_page_names_what_there_is(page: Path) -> None:
    code = "\n".join(CODE.findall(page.read_text("utf-8")))
    known = dict(leaves())
    groups = {name.partition(" ")[0] for name in known}
    for name in re.findall(r"(?:\$ |(?<!`)`)xscl ([a-z]+)\b", code):
        assert name in groups, name
    options = [one for command in known.values() for one in command.params]
    flags = {flag for one in options for flag in (*one.opts, *one.secondary_opts)}
    flags |= {"--version", "--help", "--install-completion", *FOREIGN}
    for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code):
        assert flag in flags, flag
    paths = [re.sub(r"\{[^}]+\}", "[^/]+", one) for one in openapi()["paths"]]
    for path in re.findall(r"/v1/[\w/:{}.-]+", code):
        plain = re.sub(r"(?<=[\w}])\.$", "", path)
        if plain != "/v1/openapi.json":
            assert any(re.fullmatch(one, plain) for one in paths), path


@pytest.mark.parametrize("page", GUIDES, ids=_named)
def test_sentences_of_guides_are_short(page: Path) -> None:
    text = re.sub(r"^(?:#.*|!\[.*)$", "", prose(page), flags=re.MULTILINE)
    sentences = [
        one.split()
        for block in re.split(r"\n\s*\n|^- |^\d+\. ", text, flags=re.MULTILINE)
        for one in re.split(r"(?<=[.?!:])\s", block)
        if one.split()
    ]
    long = [" ".join(one) for one in sentences if len(one) > WORDS]
    assert len(long) <= SHARE * len(sentences), long


def test_links_out_of_the_folder_stay_in_the_site_or_become_text() -> None:
    page = "[a](../../SECURITY.md#threats) [b](../../feeds/spool.py) [c](sql.md) [d](https://e.f)"
    assert rewritten(page, "how-to/users.md", "docs/how-to/users.md") == (
        "[a](../project/security.md#threats) b [c](sql.md) [d](https://e.f)"
    )
    page = "[a](docs/languages/xpath.md) ![p](docs/images/p.svg) [r](README.md)"
    assert rewritten(page, "project/security.md", "SECURITY.md") == (
        "[a](../languages/xpath.md) ![p](docs/images/p.svg) [r](../index.md)"
    )
    assert all((ROOT / name).is_file() for name in PROJECT)


def test_drawn_pictures_are_those_of_the_program() -> None:
    for name, drawn in pictures().items():
        kept = (IMAGES / name).read_text("utf-8")
        assert _unstyled(kept) == _unstyled(drawn), "python -m tests.documentation.pictures"


def _unstyled(picture: str) -> str:
    """Return a picture without its style, which is that of all pictures of the program."""
    return re.sub(r"<style>.*?</style>", "", picture, flags=re.DOTALL)
