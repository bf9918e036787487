"""Answers of `why` as lines of text: those of an engine, and those that the API returns.

It loads no engine: a command prints what a service has found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xscl.language.names import EVERYTHING
from xscl.plurals import counted
from xscl.time_format import duration

if TYPE_CHECKING:
    from xscl.client import answers
    from xscl.inspection.diagnosis import Diagnosis
    from xscl.inspection.vocabulary import SeenName
    from xscl.inspection.why import Why

AnyWhy: TypeAlias = "Why | answers.Why"
AnyDiagnosis: TypeAlias = "Diagnosis | answers.Diagnosis"


def why_lines(found: AnyWhy) -> Iterator[str]:
    """Yield the explanation of some documents, one condition a line."""
    verb = "matches" if found.matched else "does not match"
    waits = not found.matched and all(one.holds or one.pending for one in found.edges)
    yield f"{found.query} {verb} {', '.join(found.documents)}{' yet' if waits else ''}"
    for edge in found.edges:
        sign = "holds" if edge.holds else "waits" if edge.pending else "FAILS"
        near = "" if edge.nearest is None else f": {edge.nearest}"
        yield f"  {sign}  {edge.kind:<12}  {edge.text}{near}"


def diagnosis_heading(found: AnyDiagnosis) -> str:
    """Return the query, and the answer if its closest documents match."""
    matched = found.closest is not None and found.closest.matched
    return f"{found.query} {'has matches' if matched else 'has no match so far'}"


def diagnosis_lines(found: AnyDiagnosis, waiting: int = 0) -> Iterator[str]:
    """Yield a diagnosis: a line for each block, then the closest documents.

    `waiting` documents are not consumed yet; they may be of a stream that has none.
    """
    for one in found.blocks:
        newest = "" if one.examined == one.kept else "the newest "
        documents = f"{newest}{counted(one.examined, 'document')}"
        yield f"  {one.matching:,} of {documents} of {one.stream} match {one.block}"
        if not one.kept and waiting:
            wait = "waits" if waiting == 1 else "wait"
            yield f"        {counted(waiting, 'document')} {wait} to be read: try again soon"
        elif not one.kept:
            tag = "" if one.stream == EVERYTHING else f" --tag {one.stream}"
            yield (
                f"        nothing has come on {one.stream}: 'xscl feeds add URL{tag}' follows a"
                f" feed, 'xscl push --stream {one.stream} FILE' sends documents"
            )
        if one.failing is not None:
            yield f"        {one.failing}"
        if one.nearest:
            yield f"        near: {names_text(one.nearest)}"
    if found.closest is not None:
        _, *edges = why_lines(found.closest)
        documents = ", ".join(found.closest.documents)
        yield f"  {'a match' if found.closest.matched else 'closest to a match'}: {documents}"
        yield from (f"  {line}" for line in edges)


def names_text(nearest: Sequence[SeenName | answers.NearName]) -> str:
    """Return near names as text: `title (15 documents)`."""
    return ", ".join(f"{one.name} ({counted(one.documents, 'document')})" for one in nearest)


def late_note(late: int, lateness: int) -> str:
    """Return a remark on documents that came too late for a tried query, "" without any."""
    if not late:
        return ""
    verb = "was" if late == 1 else "were"
    return (
        f"{counted(late, 'document')} {verb} too late for this query (lateness"
        f" {duration(lateness)})"
    )
