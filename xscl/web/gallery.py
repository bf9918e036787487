"""The gallery: use cases, each a query with sample documents and its matches among them.

<case stories="true">  or without stories
  <title/> <story/> <query/>
  <document streams="news" id="n-1" at="2024-05-06T06:00:00Z"> one element </document>*
  <finds>n-1 n-3</finds>*
</case>
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from importlib import resources

from lxml import etree

from feeds.documents import Document
from xscl.engine.facade import Engine
from xscl.subscriptions.match import Match

HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True)
class UseCase:
    """A use case; `finds` has the documents' ids of each match, in the order of the matches.

    `stories` is the default of that option for a subscription to the use case.
    """

    slug: str
    title: str
    story: str
    query: str
    stories: bool
    documents: tuple[Document, ...]
    finds: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=1)
def cases() -> tuple[UseCase, ...]:
    """Return the use cases, in the order of their files."""
    folder = resources.files("xscl.web.samples") / "gallery"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        _case(file.name.removesuffix(".xml").partition("-")[2], file.read_bytes())
        for file in files
        if file.name.endswith(".xml")
    )


def case_of(slug: str) -> UseCase | None:
    """Return the use case with a slug, None if there is none."""
    return next((case for case in cases() if case.slug == slug), None)


def all_found() -> dict[str, list[Match]]:
    """Return the matches by slug, found by one engine among the documents of all use cases.

    The matches hold a reference to the engine, which reads their documents.
    """
    engine = Engine()
    engine.subscribe_many((case.slug, case.query) for case in cases())
    given = (document for case in cases() for document in case.documents)
    engine.push(sorted(given, key=lambda one: one.timestamp))
    engine.flush()
    matches: dict[str, list[Match]] = {case.slug: [] for case in cases()}
    for match in engine.matches():
        matches[match.subscription].append(match)
    return matches


def documents(now: int) -> list[Document]:
    """Return all sample documents, moved in time so that the latest of a case is an hour old.

    Their ids contain the slug and `now` (in ticks), so that a second call makes other documents.
    """
    moved: list[Document] = []
    for case in cases():
        later = now - HOUR - max(document.timestamp for document in case.documents)
        moved.extend(
            replace(
                document,
                id=f"sample:{now}:{case.slug}:{document.id}",
                timestamp=document.timestamp + later,
            )
            for document in case.documents
        )
    return sorted(moved, key=lambda one: one.timestamp)


def _case(slug: str, body: bytes) -> UseCase:
    root = etree.fromstring(body)
    return UseCase(
        slug,
        root.findtext("title", ""),
        root.findtext("story", ""),
        root.findtext("query", ""),
        root.get("stories") == "true",
        tuple(_document(element) for element in root.iterfind("document")),
        tuple(tuple((element.text or "").split()) for element in root.iterfind("finds")),
    )


def _document(element: etree._Element) -> Document:
    at = datetime.fromisoformat(element.get("at", ""))
    (content,) = element
    content.tail = None
    return Document(
        tuple(element.get("streams", "").split()),
        element.get("id", ""),
        int(at.timestamp()) * 1_000_000,
        etree.tostring(content, encoding="UTF-8", xml_declaration=False),
    )
