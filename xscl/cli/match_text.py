"""Matches on standard output: lines of text for people, XML, or JSON."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, assert_never

from xscl.cli.options import option
from xscl.cli.output import clean, echo_json, echo_lines, echo_xml, one_line
from xscl.client import answers
from xscl.time_format import ticks_to_second

if TYPE_CHECKING:
    from xscl.subscriptions.match import DocumentSource, Match, Node

AnyMatch: TypeAlias = "Match | answers.Match"
"""A match of an engine in this process, or as the API returns it."""

WIDTH = 100
"""Maximum number of characters of a title or a value."""


class MatchFormat(StrEnum):
    """Output format of matches."""

    TEXT = "text"
    XML = "xml"
    JSONL = "jsonl"


Format: TypeAlias = Annotated[MatchFormat, option("How to write matches.", flags="--format")]
Jsonl: TypeAlias = Annotated[bool, option("The same as --format jsonl.", flags="--json")]


def writer(form: MatchFormat, *, verbose: bool) -> Callable[[AnyMatch], None]:
    """Return the function that prints a match in a format."""
    match form:
        case MatchFormat.TEXT:
            return lambda found: echo_lines(match_text(found, verbose=verbose))
        case MatchFormat.XML:
            return _write_xml
        case MatchFormat.JSONL:
            return lambda found: echo_json(match_row(found))
        case _:
            assert_never(form)


def match_row(match: AnyMatch) -> Any:
    """Return a match as a value that `echo_json` prints."""
    if isinstance(match, answers.Match):
        return match
    from xscl.delivery.message import row_of  # loads the engine, which made the match

    return row_of(match)


def _output(match: AnyMatch) -> str:
    return match.xml if isinstance(match, answers.Match) else match.xml().decode()


def _write_xml(match: AnyMatch) -> None:
    text = _output(match)
    echo_xml((clean(text) if sys.stdout.isatty() else text) + "\n")


@dataclass(slots=True)
class MatchReport:
    """Prints the matches of one command, or with `as_json` collects them in `rows`.

    `shown` counts the printed and the collected ones.  Without `history`, matches among items from
    first polls are only counted by subscription, in `silent`.
    """

    as_json: bool
    history: bool = True
    verbose: bool = False
    shown: int = 0
    rows: list[Any] = field(default_factory=list)
    silent: Counter[str] = field(default_factory=Counter)

    def __call__(self, matches: Iterable[AnyMatch]) -> None:
        for match in matches:
            if match.history and not self.history:
                self.silent[match.subscription] += 1
                continue
            self.shown += 1
            if self.as_json:
                self.rows.append(match_row(match))
            else:
                echo_lines(match_text(match, verbose=self.verbose))
        sys.stdout.flush()


def match_text(match: AnyMatch, *, verbose: bool = False) -> Iterator[str]:
    """Yield a match as lines of text: subscription and time, then each document.

    Bound variables follow if none of the documents has a title, since these tell nothing else.
    """
    history = "  (history)" if match.history else ""
    yield f"{match.subscription}  {ticks_to_second(match.t1)}{history}"
    if verbose:
        yield f"  match {match.id}"
    for source in match.sources:
        yield from _document(source, verbose)
    if match.absence:
        yield f"  {one_line(match.absence, WIDTH)}"
    if match.constructed:
        yield f"  {one_line(_output(match), 2 * WIDTH)}"
    if verbose or not any(source.title for source in match.sources):
        yield from _bindings(match, verbose=verbose)


def _document(source: DocumentSource | answers.Source, verbose: bool) -> Iterator[str]:
    """Yield a document: title, publisher or name, and time; then its address."""
    publisher = source.feed_title or source.source
    named = publisher or f"{source.document} ({source.root})"
    parts = one_line(source.title, WIDTH), one_line(named)
    yield "  " + " | ".join([*filter(None, parts), ticks_to_second(source.ts)])
    if source.url:
        yield f"    {one_line(source.url)}"
    if verbose and publisher:
        yield f"    {one_line(source.document)}"


def _bindings(match: AnyMatch, *, verbose: bool) -> Iterator[str]:
    """Yield the bound variables as lines, one for each node.

    A node around other bound nodes is shown by its location, and only with `verbose`.
    """
    bound = [(variable, node) for variable, nodes in match.bindings.items() for node in nodes]
    around = _around(node for _, node in bound)
    for variable, node in bound:
        if (node.document, f"{node.path}/") not in around:
            yield f"    {variable} = {one_line(node.value, WIDTH)}"
        elif verbose:
            yield f"    {variable} = {one_line(node.path, WIDTH)}"


def _around(nodes: Iterable[Node | answers.Node]) -> set[tuple[str, str]]:
    """Return the documents and paths, with a slash, of nodes that are ancestors of others.

    In sorted order a descendant directly follows its ancestor.
    """
    places = sorted({(node.document, f"{node.path}/") for node in nodes})
    return {
        one
        for one, following in pairwise(places)
        if one[0] == following[0] and following[1].startswith(one[1])
    }
