"""A match as lines of text for people: its documents, and with `verbose` ids and bindings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from xscl.cli.output import one_line
from xscl.time_format import moment

if TYPE_CHECKING:
    from xscl.delivery.message import MatchFields
    from xscl.subscriptions.match import DocumentSource, Node

WIDTH = 100
"""Maximum number of characters of a title or a value."""


def match_text(match: MatchFields, *, verbose: bool = False) -> Iterator[str]:
    """Yield a match as lines of text: subscription and time, then each document.

    Bound variables follow if none of the documents has a title, since these tell nothing else.
    """
    history = "  (history)" if match.history else ""
    yield f"{match.subscription}  {moment(match.t1)}{history}"
    if verbose:
        yield f"  match {match.id}"
    for source in match.sources:
        yield from _document(source, verbose)
    if match.constructed:
        yield f"  {one_line(match.xml().decode(), 2 * WIDTH)}"
    if verbose or not any(source.title for source in match.sources):
        yield from _bindings(match, verbose=verbose)


def _document(source: DocumentSource, verbose: bool) -> Iterator[str]:
    """Yield a document: title, publisher or name, and time; then its address."""
    named = source.source or f"{source.document} ({source.root})"
    parts = one_line(source.title, WIDTH), one_line(named)
    yield "  " + " | ".join([*filter(None, parts), moment(source.ts)])
    if source.url:
        yield f"    {one_line(source.url)}"
    if verbose and source.source:
        yield f"    {one_line(source.document)}"


def _bindings(match: MatchFields, *, verbose: bool) -> Iterator[str]:
    """Yield the bound variables.

    Of a node around other bound nodes the location says more than its text; it is for `verbose`.
    """
    bound = [(variable, node) for variable, nodes in match.bindings.items() for node in nodes]
    around = _around(node for _, node in bound)
    for variable, node in bound:
        if (node.document, f"{node.path}/") not in around:
            yield f"    {variable} = {one_line(node.value, WIDTH)}"
        elif verbose:
            yield f"    {variable} = {one_line(node.path, WIDTH)}"


def _around(nodes: Iterable[Node]) -> set[tuple[str, str]]:
    """Return the documents and paths, with a slash, of nodes that are ancestors of others.

    In sorted order what lies in a node follows it directly.
    """
    places = sorted({(node.document, f"{node.path}/") for node in nodes})
    return {
        one
        for one, following in pairwise(places)
        if one[0] == following[0] and following[1].startswith(one[1])
    }
