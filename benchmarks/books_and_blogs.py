"""Books and blogs that share authors and titles, and joins of them: several nodes on each side.

Queries have two equalities, `!=`, bindings that no predicate uses, and conditions.  Three documents
have the same time.
"""

from __future__ import annotations

import random

from feeds.documents import Document

BETWEEN = 900_000_000  # ticks from three documents to the next three
AUTHORS, TITLES, WINDOWS = 60, 40, 20


def documents(count: int, seed: int) -> list[Document]:
    """Return books and blogs in turns, in the order of time."""
    source = random.Random(seed)
    return [
        Document("S", f"d{number}", number // 3 * BETWEEN, _text(source, number).encode())
        for number in range(count)
    ]


def _text(source: random.Random, number: int) -> str:
    chosen = source.sample(range(AUTHORS), source.randint(1, 3))
    authors = "".join(f"<author>author {one}</author>" for one in chosen)
    titles = [f"<title>t{source.randrange(TITLES)}</title>" for _ in range(source.randint(1, 3))]
    if number % 2:
        chapters = "".join(
            f"<chapter>{title}<page>{source.randrange(9)}</page></chapter>" for title in titles
        )
        return f"<book>{authors}{chapters}<year>{1990 + source.randrange(8)}</year></book>"
    posts = "".join(f"<post>{title}<tag>g{source.randrange(5)}</tag></post>" for title in titles)
    return f"<blog>{authors}{posts}</blog>"


def queries(count: int) -> dict[str, str]:
    """Return subscriptions of four kinds in turns, by name."""
    return {f"q{number}": _query(number) for number in range(count)}


def _query(number: int) -> str:
    window = f"{1 + number % WINDOWS} h"
    return (
        "S//book->x1[./author->x2][./chapter/title->x3]"
        f" FOLLOWED BY{{x2=x5 AND x3=x6, {window}}} S//blog->x4[./author->x5][.//title->x6]",
        "S//blog->x4[./post->p[./title->x6][./tag->g]]"
        f" FOLLOWED BY{{x6=x3, {window}}}"
        " S//book->x1[./chapter->c[./title->x3][./page->q]][./year->y]",
        "S//book->x1[./author->x2][./year->y1]"
        f" JOIN{{x2=x5 AND y1 != y2, {window}}} S//book->x4[./author->x5][./year->y2]",
        "S//blog->x1[./author->x2]"
        f" JOIN{{x2=x5, {window}}}"
        f' S//book->x4[./author->x5][./chapter[./page="{number % 9}"]->c]',
    )[number % 4]
