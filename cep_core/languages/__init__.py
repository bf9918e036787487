"""The event languages: each a function from text to algebra.

A language splits the literals out of a text (`split`), so that queries of one shape are prepared
once, and turns a text into algebra (`prepare`).  `LANGUAGES` has them by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from cep_core.algebra import Node, streams_of
from cep_core.algebra.expressions import Functions
from cep_core.errors import AlgebraError, CepError, QueryError
from cep_core.events import shown
from cep_core.languages.cel import cel
from cep_core.languages.eql import eql
from cep_core.languages.names import AlgebraQuery, StreamCatalog, unknown
from cep_core.languages.reader import TokenReader
from cep_core.languages.sase import sase
from cep_core.languages.tokens import COMMON, Lexis, split, tokens

__all__ = [
    "LANGUAGES",
    "AlgebraQuery",
    "EventLanguage",
    "StreamCatalog",
    "prepare_node",
    "refuse_bare_windows",
    "require_name",
]

_NAME = re.compile(r"[^\W\d]\w*")


class EventLanguage(NamedTuple):
    """The lexis of a language, and the two functions that read its texts.

    ``split`` gives the shape of a text, the values of its literals, and the name that it publishes;
    ``prepare`` the algebra, with the literals as parameters numbered in the same order.
    """

    lexis: Lexis
    split: Callable[[str, int], tuple[str, tuple[Any, ...], str | None]]
    prepare: Callable[[str, StreamCatalog, int, Functions], AlgebraQuery]


def require_name(name: object, what: str) -> None:
    """Raise CepError unless a value can name a stream in queries; ``what`` is its noun."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        form = "a word of letters, digits and _ that begins with no digit"
        raise CepError(f"{what} is {form}, not {shown(name)}")
    if name.upper() in cel.KEYWORDS:
        raise CepError(f"{name} cannot be {what}: it is a word of the language")


def refuse_bare_windows(text: str, language: str) -> None:
    """Raise QueryError for a window of a query without a unit: a bare number is one of ticks.

    Ticks are right in a program that has chosen them, and a trap for people.
    """
    found = tokens(text, 1_000_000, LANGUAGES[language].lexis)
    braces: list[str] = []  # the words before the braces that are open
    two = last = found[-1]  # the last two tokens
    for one, after in pairwise(found):
        if one.text == "{":
            braces.append(last.word)
        elif one.text == "}" and braces:
            braces.pop()
        behind = two if last.text == "<=" else last
        ends = last.text == "," and after.text == "}" and braces[-1:] == ["JOIN"]
        is_window = ends or behind.word in ("WITHIN", "WINDOW", "FOR") or last.text == "@"
        if is_window and one.kind == "literal" and one.text.isdigit() and one.value:
            hint = f"write '{one.text} s' or '{one.text} min'; units are us, ms, s, min, h, d, w"
            raise QueryError(f"the window {one.text} has no unit", text, one.span, hint=hint)
        two, last = last, one


def prepare_node(node: Node, catalog: StreamCatalog) -> AlgebraQuery:
    """Return algebra as a query; raises AlgebraError unless the catalog has its streams."""
    reads = streams_of(node)
    for stream in reads.values():
        if catalog.schema(stream.name) != stream.schema:
            message = f"there is no stream {stream.name}{stream.schema}"
            raise unknown(stream.name, catalog.names(), None, message)
    return AlgebraQuery(node, None, {}, tuple(reads))


def _textual(
    read: Callable[[TokenReader, StreamCatalog, Functions], AlgebraQuery],
    keywords: Collection[str],
    lexis: Lexis = COMMON,
) -> EventLanguage:
    """Return the language that ``read`` reads from tokens; its AlgebraErrors become QueryErrors."""

    def prepare(
        text: str, catalog: StreamCatalog, ticks_per_second: int, functions: Functions
    ) -> AlgebraQuery:
        reader = TokenReader(text, tokens(text, ticks_per_second, lexis), keywords)
        try:
            query = read(reader, catalog, functions)
            for place, token in enumerate(reader.published):
                twice = token.text in [one.text for one in reader.published[:place]]
                if twice or token.text in query.reads:
                    fault = "twice" if twice else "and reads it"
                    message = f"the query publishes {token.text} {fault}"
                    raise AlgebraError(message, span=token.span)
            return query
        except AlgebraError as error:
            raise QueryError.of(error, text) from None

    return EventLanguage(lexis, partial(split, lexis=lexis), prepare)


LANGUAGES: Mapping[str, EventLanguage] = {
    "cel": _textual(cel.read, cel.KEYWORDS, cel.LEXIS),
    "eql": _textual(eql.read, eql.KEYWORDS, eql.LEXIS),
    "sase": _textual(sase.read, sase.KEYWORDS, sase.LEXIS),
}
