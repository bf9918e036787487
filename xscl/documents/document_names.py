"""Names of documents: an id is one of a stream, and each name is that of one document.

The n-th version of the document `17` of the stream `orders` is called `orders/17@n`, the first one
`orders/17`.  The name depends on nothing else: not on other streams, nor on the order of arrival
among streams.  Two rules keep names unique:

    the documents of the stream `S`, the only one of the paper, are called by their ids, but for ids
    with a slash: `d1`, but `S/old/d1`
    an id that ends as the name of a version does is always followed by its version: `a@2@1`

A document of several streams is called after the first one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xscl.errors import DocumentError
from xscl.store.store import Store

PLAIN = "S"
"""The stream whose documents are called by their ids."""
SUFFIX = "@[0-9]+$"
"""The version at the end of a name, as SQL has it, too."""
UNKNOWN = "unknown_document"
"""The code of the error of a name that no document has."""
_VERSIONED = re.compile(r"(.*)@([0-9]+)", re.DOTALL)
_LISTED = 10  # the most names in the message about an ambiguous id


def document_name(stream: str, id: str, number: int = 1) -> str:
    """Return the name of a document of a stream; `number` is that of its version, from 1."""
    name = id if stream == PLAIN and "/" not in id else f"{stream}/{id}"
    if number == 1 and not ("@" in id and _VERSIONED.fullmatch(id)):
        return name
    return f"{name}@{number}"


def number_in(name: str) -> int:
    """Return the number of the version in the name of a document."""
    found = _VERSIONED.fullmatch(name) if "@" in name else None
    return 1 if found is None else int(found[2])


def posted_name(id: str, number: int) -> str:
    """Return the id that was posted, followed by the version from the second one on."""
    return id if number == 1 else f"{id}@{number}"


# -- The document that a reader means ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A document that a text may name: its name in the engine and that for the reader.

    The best `fit` is the least: the name, or the id with some stream, or alone; then the reader's
    own documents before others.
    """

    fit: tuple[int, bool]
    name: str
    shown: str
    streams: Sequence[str]


def find_document(
    store: Store,
    text: str,
    visible: Callable[[str], str | None] = str,
    stream: str | None = None,
) -> str:
    """Return the name of the document that a text means: a name, or an id of one document only.

    `visible` returns the reader's name of a stream, None for a stream that he does not see.  Of
    several documents with an id that of a `stream` is meant.  Raises DocumentError for an unknown
    document, and for an id of several.
    """
    found = list(_candidates(store, text, visible))
    if not found:
        raise DocumentError(
            f"there is no document {text!r}",
            reason_code=UNKNOWN,
            hint="xscl sql 'SELECT docid FROM documents' lists them",
        )
    best = min(one.fit for one in found)
    chosen = [one for one in found if one.fit == best]
    if len(chosen) > 1:
        chosen = [one for one in chosen if stream in one.streams] or chosen
    if len(chosen) > 1:
        listed = ", ".join(sorted(one.shown for one in chosen)[:_LISTED])
        more = ", ..." if len(chosen) > _LISTED else ""
        raise DocumentError(
            f"{text!r} is the id of {len(chosen)} documents: {listed}{more}",
            reason_code="ambiguous_document",
            hint="name one of them with its stream",
        )
    return chosen[0].name


def _candidates(
    store: Store, text: str, visible: Callable[[str], str | None]
) -> Iterator[_Candidate]:
    """Yield the visible documents that a text may name."""
    _, _, behind = text.partition("/")
    versions = (_VERSIONED.fullmatch(one) for one in (text, behind))
    ids = {text, behind, *(found[1] for found in versions if found)}
    rows = store.fetch(
        "SELECT id, given, streams FROM state.document WHERE list_contains(?::VARCHAR[], given)",
        [sorted(ids)],
    )
    for name, given, streams in rows:
        seen = [(stream, label) for stream in streams if (label := visible(stream)) is not None]
        if not seen:
            continue
        number = number_in(name)
        forms = {posted_name(given, number), f"{given}@{number}"}
        names = [_shown(stream, label, given, number) for stream, label in seen]
        labelled = {f"{label}/{form}" for _, label in seen for form in forms}
        if text == names[0]:
            fit = 0
        elif text in names or text in labelled:
            fit = 1
        elif text in forms:
            fit = 2
        else:
            continue
        is_own = any(len(label) < len(stream) for stream, label in seen)  # without its owner
        yield _Candidate((fit, not is_own), name, names[0], streams)


def _shown(stream: str, label: str, id: str, number: int) -> str:
    """Return a name of a document with the reader's name of the stream."""
    name = document_name(stream, id, number)
    return label + name[len(stream) :] if name.startswith(f"{stream}/") else name
