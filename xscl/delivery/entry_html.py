"""The content of an entry as HTML: the documents of its matches, with joined values marked.

All text is escaped, descriptions keep the elements that `safe_html` permits, and the whole passes
through it once more.  So nothing in a document can run in a feed reader, or leave its entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from lxml import etree

from feeds.formats.display import safe_html
from xscl.delivery.cards import (
    DOT,
    Card,
    CardValue,
    built_values,
    documents_of,
    is_text,
    sentence_case,
    shown,
)
from xscl.engine.story_log import Story
from xscl.language.names import owner_name
from xscl.shredding.nodes import DocumentTree, string_value
from xscl.subscriptions.match import Match
from xscl.time_format import ticks_to_minute, written

MARK = frozenset({"mark"})
"""The element of joined values, which descriptions may not have."""
LONGEST = 20_000
"""Number of characters above which a description is cut to its beginning, as text."""
OUTPUT = 100_000
"""Most bytes of an output document that are shown."""


def entry_html(matches: Sequence[Match]) -> str:
    """Render matches of one subscription on the same documents, or a story, as sanitised HTML."""
    match = matches[0]
    view = shown(match, owner_name(match.subscription), owner_name, together=matches[1:])
    cards = view.cards  # a match without documents has none
    documents = zip(cards, documents_of(matches) if cards else (), strict=True)
    parts = [part for card, one in documents for part in _document(card, one.tree)]
    if isinstance(matches, Story) and (others := matches.total - len(cards)) > 0:
        parts.append(f"<p>and {others} more</p>")
    if view.absence:
        parts.append(f"<p><strong>{escape(sentence_case(view.absence))}.</strong></p>")
    parts += _list(view.values)
    if match.constructed:
        parts += _output(match)
    return safe_html("".join(parts))


def _document(card: Card, tree: DocumentTree) -> Iterator[str]:
    """Yield a document: heading, publisher and time, text, categories, and other values."""
    title = _marked(card.title)
    yield f'<h3><a href="{escape(card.url)}">{title}</a></h3>' if card.url else f"<h3>{title}</h3>"
    origin = f"{_marked(card.origin)} \N{MIDDLE DOT} " if card.origin else ""
    if card.version > 1:
        origin += f"version {card.version} \N{MIDDLE DOT} "
    time = f'<time datetime="{written(card.ts)}">{ticks_to_minute(card.ts)}</time>'
    yield f"<p>{origin}{time}</p>"
    if card.text is not None:
        yield f"<blockquote>{_text(card.text, tree, card.url or '')}</blockquote>"
    if card.categories:
        yield f"<p>{', '.join(map(_marked, card.categories))}</p>"
    yield from _list(card.values)


def _text(text: CardValue, tree: DocumentTree, base: str) -> str:
    """Return the text of an item with its markup, unless it is joined or long."""
    named = (
        escape(string_value(item)) if is_text(item) else string_value(item)
        for item in tree.items
        if isinstance(item, etree._Element) and etree.QName(item).localname == text.name
    )
    html = next(named, "")
    return (
        _marked(text) if text.joined or len(html) > LONGEST else safe_html(html, base, without=MARK)
    )


def _list(values: Iterable[CardValue]) -> Iterator[str]:
    rows = [f"<dt>{escape(value.name)}</dt><dd>{_marked(value)}</dd>" for value in values]
    if rows:
        yield f"<dl>{''.join(rows)}</dl>"


def _output(match: Match) -> Iterator[str]:
    """Yield the document that SELECT constructs: its leaves, or its text if it has none."""
    xml = match.xml(OUTPUT)
    yield "<hr>"
    yield from list(_list(built_values(xml))) or [f"<pre>{escape(xml.decode())}</pre>"]


def _marked(value: CardValue) -> str:
    """Return a value; a joined one is marked, with the number of its comparison.

    It is strong, too, for readers that drop <mark>.
    """
    if value.parts:
        return DOT.join(f"{escape(part.name)} {_marked(part)}".strip() for part in value.parts)
    text, number = escape(value.text), value.joined
    return f"<strong><mark>{text}</mark></strong><sup>{number}</sup>" if number else text
