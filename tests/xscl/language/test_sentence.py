"""Queries read back as one sentence."""

from __future__ import annotations

import pytest

from tests.xscl.language.queries import VALID
from xscl.language.sentence import sentence
from xscl.web.gallery import UseCase, cases


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("S", "Tell me about each document of S."),
        ("S//order[./total > 10]->o", "Tell me about each order of S whose total is more than 10."),
        (
            "news//item->a[./title->t][./category = 'sea'][contains(./title, 'ferry')]"
            " FOLLOWED BY{t = u, 3 d} blogs//item->b[./title->u]",
            'Tell me when an item of news whose category is "sea" and whose title contains "ferry"'
            " is followed within 3 days by an item of blogs with the same title.",
        ),
        (
            'news//item[not(./title = "Old")][not(./author)]->a',
            'Tell me about each item of news without the title "Old" and without author.',
        ),
        (
            "A//a[./k->k][./s->s] JOIN{k = l AND s != z, 1 h} B//b[./k->l][./s->z] PUBLISH c",
            "Tell me when an a of A and a b of B come at most 1 hour apart with the same k and"
            " another s; publish it as c.",
        ),
        (
            "A//a[./k->k] NOT FOLLOWED BY{k = l, 30 min} B//b[./m->l]",
            "Tell me when an a of A is not followed within 30 minutes by a b of B where the first's"
            " k is its m.",
        ),
        (
            "A//a[./k->k] FOLLOWED BY{k = l, 1 w} B//b[./k->l]"
            " FOLLOWED BY{l = m OR contains(m, k), 1 d} C//c[./k->m]",
            "Tell me when an a of A is followed within 7 days by a b of B with the same k, then"
            " within 1 day by a c of C where (the second's k is its k or its k contains the"
            " first's k).",
        ),
        (
            "A//a[./k->k][./v->v] FOLD{$2.k = $1.k, $2.v > $.v} A//a[./k->k][./v->v]",
            "Tell me when an a of A is followed by one or more, each an a of A with the same k, as"
            " long as its v is more than the last one's v.",
        ),
    ],
)
def test_a_query_is_read_back(query: str, read: str) -> None:
    assert sentence(query) == read


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.slug)
def test_queries_of_the_gallery_are_read_back(case: UseCase) -> None:
    assert sentence(case.query).startswith("Tell me when ")


@pytest.mark.parametrize("query", VALID.values(), ids=VALID)
def test_every_construct_is_read_back(query: str) -> None:
    read = sentence(query)
    assert read.startswith("Tell me ")
    assert "\n" not in read
