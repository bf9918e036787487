"""The indexes of texts find what a test of every text finds."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates.text import candidates
from templates.text.text_comparisons import TextRole, text_operator
from templates.text.text_index import TextIndex
from tests.examples import examples

ALPHABET = "ab \N{GREEK SMALL LETTER PI}\N{GRINNING FACE}"
TEXTS = st.lists(st.text(ALPHABET, max_size=14), max_size=30, unique=True)
WITHIN: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "starts-with": lambda text, part: text[: len(part)] == part,
    "ends-with": lambda text, part: text[max(0, len(text) - len(part)) :] == part,
}


def jaccard(one: str, other: str) -> float:
    mine, others = {*one.split()}, {*other.split()}
    return len(mine & others) / len(mine | others) if mine | others else 0.0


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("exchanged", ["", "within "])
@examples(25, all_of_them=True)
@given(
    kept=TEXTS,
    gone=st.sets(st.integers(0, 29)),
    asked=st.text(ALPHABET, max_size=40),
    test=st.sampled_from([*WITHIN, "jaccard > 0.5", "jaccard >= 0.5", "jaccard >= 0"]),
    block=st.sampled_from((8, 16)),
)
def test_an_index_finds_what_compares(
    left: bool, exchanged: str, kept: list[str], gone: set[int], asked: str, test: str, block: int
) -> None:
    """`left`: the kept texts are the left side's; some of them have been removed."""
    compared = text_operator(f"{exchanged}{test}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(candidates, "BLOCK", block)
        index = TextIndex(compared.role(left=left))
        index.add((key, text) for key, text in enumerate(kept[:20]))
        stays = [key for key, _ in enumerate(kept[:20]) if key not in gone]
        index.only(np.array(stays, np.uint64))
        index.add((key, text) for key, text in enumerate(kept) if key >= 20)
        found = index.similar(asked, compared, 1_000_000)
    stays += range(20, len(kept))
    expected = [key for key in stays if holds(kept[key], asked, test, left=left, back=exchanged)]
    assert sorted(found.keys.tolist()) == expected
    assert not found.cut


def holds(kept: str, asked: str, test: str, *, left: bool, back: str) -> bool:
    one, other = (kept, asked) if left else (asked, kept)
    if test in WITHIN:
        return WITHIN[test](other, one) if back else WITHIN[test](one, other)
    sign, bound = test.split()[1:]
    share = jaccard(one, other)
    return share > float(bound) or (sign == ">=" and share == float(bound))


def test_what_costs_more_than_is_allowed_is_not_compared() -> None:
    index = TextIndex("part")
    index.add((key, f"{key}") for key in range(10))
    whole = "0123456789"
    cost = 10 * (len(whole) + 1)
    found = index.similar(whole, text_operator("contains"), cost)
    assert (len(found.keys), found.characters, found.cut) == (10, cost, False)
    found = index.similar(whole, text_operator("contains"), cost - 1)
    assert (len(found.keys), found.cut) == (0, True)


@pytest.mark.parametrize("role", ["whole", "part", "words"])
def test_bytes_are_near_those_that_python_allocates(role: TextRole) -> None:
    texts = [f"{number} word{number % 500} some{number % 50} text" for number in range(1_000)]
    gc.collect()
    tracemalloc.start()
    try:
        index = TextIndex(role)
        index.add((key + (1 << 60), f"{text}!") for key, text in enumerate(texts))
        allocated, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.6 * allocated < index.nbytes < 1.5 * allocated
    index.only(np.empty(0, np.uint64))
    assert index.nbytes < 0.05 * allocated
