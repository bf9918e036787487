"""The document that a text means: its name, or the id of one document only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xscl.documents.document_ids import VERSIONED, document_name, number_in, posted_name
from xscl.errors import DocumentError
from xscl.store.queries.rows import rows_of
from xscl.store.store import Store

UNKNOWN = "unknown_document"
"""The code of the error of a name that no document has."""
_SEARCHED = 1_000  # newest documents among which a path is searched
_LISTED = 10  # the most names in the message about an ambiguous id


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
            hint=_near(store, text, visible) or "xscl sql 'SELECT docid FROM documents' lists them",
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


def _near(store: Store, text: str, visible: Callable[[str], str | None]) -> str | None:
    """Return a hint with the newest document whose path ends with a text, in any case."""
    end = f"/{text.casefold()}"
    newest = f"SELECT id, given, streams FROM state.document ORDER BY rowid DESC LIMIT {_SEARCHED}"
    for row in store.rows(newest):
        id, number = row["given"], number_in(row["id"])
        seen = ((stream, label) for stream in row["streams"] if (label := visible(stream)))
        stream, label = next(seen, ("", ""))
        if label and f"/{id.casefold()}".endswith(end):
            return f"did you mean {_shown(stream, label, id, number)}?"
    return None


def _candidates(
    store: Store, text: str, visible: Callable[[str], str | None]
) -> Iterator[_Candidate]:
    """Yield the visible documents that a text may name."""
    _, _, behind = text.partition("/")
    versions = (VERSIONED.fullmatch(one) for one in (text, behind))
    ids = {text, behind, *(found[1] for found in versions if found)}
    for row in rows_of(store, "document", "id", "given", "streams", given=ids):
        name, given, streams = row["id"], row["given"], row["streams"]
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
