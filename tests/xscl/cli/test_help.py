"""`xscl help`: pages of the languages and their sections."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import ROOT
from tests.xscl.commandline import called
from xscl.language.topics import PAGES, found, topics


def test_the_pages_are_those_of_the_documentation() -> None:
    documents = {path.stem for path in (ROOT / "docs" / "languages").glob("*.md")}
    assert set(PAGES) == documents
    for page in PAGES:
        (topic,) = found(page)
        assert topic.text.startswith("# ")
        assert "<!--" not in topic.text


def test_it_lists_the_topics() -> None:
    lines = called("help").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(PAGES)
    assert "windows" in lines[0]
    assert all(found(one.name) for one in topics())


def test_a_page_has_its_grammar_and_a_section_its_page() -> None:
    assert "?expression: primary" in called("help", "xscl").stdout
    said = called("help", "Windows").stdout
    assert said.startswith("## xscl: Windows\n")
    assert "## Operators" not in said


def test_a_heading_of_several_pages_is_shown_of_each() -> None:
    said = called("help", "functions").stdout
    assert "## xscl: Functions\n" in said
    assert "## expressions: Functions\n" in said


@pytest.mark.parametrize(
    ("topic", "hint"),
    [
        ("widnows", "did you mean 'windows'?"),
        ("subscribe", "'xscl subscribe --help' shows the command"),
        ("zzzzzz", "'xscl help' lists the topics"),
    ],
)
def test_an_unknown_topic_has_a_hint(topic: str, hint: str) -> None:
    done = called("help", topic)
    assert (done.exit_code, done.stderr) == (
        2,
        f"xscl: there is no topic {topic!r}\nhint: {hint}\n",
    )


@pytest.mark.parametrize(
    ("given", "topic"), [([], "xscl"), (["--language", "sase"], "sase")], ids=["xscl", "sase"]
)
def test_a_query_that_is_wrong_leads_to_its_language(
    given: list[str], topic: str, tmp_path: Path
) -> None:
    done = called("subscribe", "wrong", "S//a[", *given, "--data", str(tmp_path / "data"))
    assert done.exit_code == 2
    assert done.stderr.endswith(f"xscl: 'xscl help {topic}' shows the language\n")
