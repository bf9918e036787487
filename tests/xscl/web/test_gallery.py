"""The gallery: each use case finds what it says, and the document of all shows all."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from feeds.xml.xmlparse import parse
from tests.project import ROOT
from xscl import Engine
from xscl.language.parser import refuse_bare_windows
from xscl.web.gallery import HOUR, UseCase, all_found, case_of, cases, documents

DOCUMENT = ROOT / "docs" / "gallery.md"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.slug)
def test_a_use_case_is_taken_as_it_is_and_finds_what_it_says(case: UseCase) -> None:
    refuse_bare_windows(case.query)
    assert case_of(case.slug) is case
    assert case.finds
    given = {document.id for document in case.documents}
    used = {name for names in case.finds for name in names}
    assert used <= given
    assert case.slug in ("three-steps", "rise-then-warning") or used < given
    with Engine() as engine:
        engine.subscribe(case.slug, case.query)
        engine.push(case.documents)
        engine.flush()
        assert tuple(match.documents for match in engine.matches()) == case.finds


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("apart", [-1, 0, 1])
def test_the_same_story_is_found_once(turned: bool, apart: int) -> None:
    """Whichever item comes first, and if both are of one time."""
    case = case_of("same-story")
    assert case is not None
    post, _, times = case.documents
    pair = [post, replace(times, timestamp=post.timestamp + apart)]
    with Engine() as engine:
        engine.subscribe(case.slug, case.query)
        arriving = pair[::-1] if turned else pair
        for document in arriving:
            engine.push([document])
        earlier, later = sorted(arriving, key=lambda one: one.timestamp)
        assert [match.documents for match in engine.matches()] == [(earlier.id, later.id)]


def test_all_use_cases_together_find_the_same() -> None:
    together = all_found()
    for case in cases():
        assert tuple(match.documents for match in together[case.slug]) == case.finds


def test_there_is_a_use_case_of_every_kind() -> None:
    assert len(cases()) >= 8
    text = " ".join(case.query for case in cases())
    for word in ("FOLLOWED BY", "NOT FOLLOWED BY", "FOLD", "SELECT", "!="):
        assert word in text


def test_samples_are_moved_to_the_last_days() -> None:
    now = 2_000_000_000_000_000
    taken = documents(now)
    assert max(one.timestamp for one in taken) == now - HOUR
    assert len({one.id for one in taken}) == len(taken) == sum(len(c.documents) for c in cases())
    assert {one.id for one in taken}.isdisjoint(one.id for one in documents(now + 1))
    for one in taken:
        parse(one.xml)


def test_the_document_has_every_query_and_picture() -> None:
    text = DOCUMENT.read_text("utf-8")
    queries = [block.strip() for block in re.findall(r"```xscl\n(.*?)```", text, re.DOTALL)]
    assert queries == [case.query for case in cases()]
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert len(pictures) >= len(cases())
    for picture in pictures:
        assert (DOCUMENT.parent / picture).read_bytes().startswith(b"\x89PNG")
