"""Inputs of `run` and `push`: their streams, and their documents in order of time."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from feeds.documents import Document
from feeds.files import files
from feeds.files.files import RejectedFile
from xscl.cli.output import UsageError, warn, warn_not_read
from xscl.cli.progress import progress
from xscl.documents.document_validation import stream_fault
from xscl.time_format import other_unit, ticks_of_time, unit_hint, written


@dataclass(frozen=True, slots=True)
class DocumentInput:
    """An input and the streams that its documents belong to."""

    path: Path
    streams: tuple[str, ...]


def sources(
    inputs: Sequence[Path], mapped: Sequence[str], streams: Collection[str]
) -> tuple[DocumentInput, ...]:
    """Return the inputs with their streams.

    `mapped` are texts NAME=PATH.  An input whose path is in none of these belongs
    to all of `streams` that are named in none of these.
    """
    by_path: dict[Path, list[str]] = {}
    for name, path in named_paths(mapped):
        if name not in streams:
            raise UsageError(
                f"no query reads the stream {name!r}",
                hint=f"the queries read {', '.join(sorted(streams))}",
            )
        by_path.setdefault(Path(path), []).append(name)
    named = {name for names in by_path.values() for name in names}
    rest = tuple(sorted(set(streams) - named))
    others = [path for path in inputs if path not in by_path]
    if others and not rest:
        raise UsageError(
            f"no stream is left for {others[0]}: all have inputs of their own",
            hint="give it one with --stream NAME=PATH",
        )
    if not by_path and not others:
        raise UsageError("there is nothing to read", hint="name files, directories or archives")
    own = (DocumentInput(path, tuple(names)) for path, names in by_path.items())
    return (*own, *(DocumentInput(path, rest) for path in others))


def named_paths(texts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and paths of texts NAME=PATH."""
    for text in texts:
        name, equals, path = text.partition("=")
        if not (name and equals and path):
            raise UsageError(f"--stream {text!r} is not of the form NAME=PATH")
        yield name, path


def load(
    found: Sequence[DocumentInput],
    at: int | None,
    *,
    native: bool,
    qualified: bool = False,
    fault: Callable[[str], str | None] = stream_fault,
) -> tuple[list[Document], list[RejectedFile]]:
    """Return the documents of the inputs by time and id, and the unreadable ones; warn of these.

    Ids made of paths are unique among these inputs; with `qualified` among all files.
    """
    documents: list[Document] = []
    refused: list[RejectedFile] = []
    for each in progress(_read(found, at, native, qualified or len(found) > 1, fault), "reading"):
        if isinstance(each, RejectedFile):
            refused.append(each)
            warn_not_read(each.id, each.reason, each.line, each.column)
        else:
            documents.append(each)
    documents.sort(key=lambda document: (document.timestamp, document.id))
    return documents, refused


def _read(
    found: Sequence[DocumentInput],
    at: int | None,
    native: bool,
    qualified: bool,
    fault: Callable[[str], str | None],
) -> Iterator[Document | RejectedFile]:
    for source in found:
        is_empty, is_warned = True, False
        try:
            for each in files.read(
                source.path, streams=source.streams, at=at, native=native, fault=fault
            ):
                is_empty = False
                is_warned = is_warned or _warn_of_unit(each)
                yield _qualified(each, source.path) if qualified else each
        except FileNotFoundError:
            yield RejectedFile(
                source.streams, str(source.path), "there is no such file or directory"
            )
        else:
            if is_empty:
                warn(f"{source.path}: there are no documents in it")


def _warn_of_unit(read: Document | RejectedFile) -> bool:
    """Warn if the time of a document looks like seconds or milliseconds; return whether it does.

    A time that was written as a text and looks so does not occur.
    """
    if not isinstance(read, Document) or (unit := other_unit(read.timestamp)) is None:
        return False
    warn(
        f"{read.id}: its time was read as {written(read.timestamp)}",
        hint=unit_hint(read.timestamp, unit),
    )
    return True


def _qualified(read: Document | RejectedFile, path: Path) -> Document | RejectedFile:
    """Return an input document under an id that is unique among several inputs.

    Ids made from a path are relative to the input, such as `a.xml` for both
    `old/a.xml` and `new/a.xml`; ids that documents and feeds bring along stay.
    """
    folder = path if path.is_dir() else path.parent
    if isinstance(read, RejectedFile):
        return replace(read, id=str(folder / read.id))
    place = re.match(rf"(?:file:)?{re.escape(read.origin)}(?=$|[:#!])", read.id)
    if place is None:
        return read
    return replace(read, id=f"{folder / read.origin}{read.id[place.end() :]}")


def placed(document: Document) -> str:
    """Return the id of a document, with its file unless the id is made of that."""
    is_placed = document.origin in document.id
    return document.id if is_placed else f"{document.id} in {document.origin}"


def instant(text: str) -> int:
    """Return the ticks of a time: ISO 8601 (UTC unless it says otherwise), or ticks."""
    found = ticks_of_time(text)
    if found is None:
        raise UsageError(
            f"{text!r} is no time", hint="write it as 2026-03-01 or 2026-03-01T12:00:00Z"
        )
    return found
