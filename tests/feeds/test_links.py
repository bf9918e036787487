"""The absolute form of links: usual addresses are not taken apart, with the same result."""

from __future__ import annotations

from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.formats.entries import link

BASES = ("http://h.example/a/b?c", "https://h.example/")
_PARTS = st.sampled_from(
    (
        *("http://", "https://", "HTTP://", "//", "h.example", "H-1.example", ":80", "u@h"),
        *("/", "/a", "/../b", "/./", "?", "?q=1&r", "#", "#f", ";", ";p", " ", "é", "%20"),
    )
)


@given(st.lists(_PARTS, min_size=1, max_size=8).map("".join), st.sampled_from(BASES))
def test_links_are_those_of_urljoin(reference: str, base: str) -> None:
    found = link(reference, base)
    try:
        expected = urljoin(base, reference.strip()) if reference.strip() else None
    except ValueError:
        expected = reference.strip()
    assert found == expected


@pytest.mark.parametrize("reference", [None, "", " \n", "java\nscript:x", "data:,x"])
def test_nothing_and_programs_are_no_links(reference: str | None) -> None:
    assert link(reference, BASES[0]) is None


def test_without_a_base_a_reference_stays() -> None:
    assert link("/a", "") == "/a"
    assert link("https://h.example/a", "") == "https://h.example/a"
