"""The declarations of namespaces before a query, where the grammar does not accept them.

The grammar refuses a text at its first token that fits nothing, and what is read instead may fail
far behind it: a declaration that was not read is a prefix that is not declared.
"""

from __future__ import annotations

import re

from xscl.errors import QueryError
from xscl.language.faults import fault
from xscl.language.syntax import Span

_DECLARED = re.compile(r"\s*NAMESPACE\s+([\w.-]+)\s*=\s*(\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_SIGN = re.compile(r"\s*([,;]|and\b)\s*(?=NAMESPACE\b|[\w.-]+\s*=|[^\W\d][\w.-]*\s*/)", re.I)
_WITHOUT_WORD = re.compile(r"\s*()[\w.-]+\s*=\s*[\"']")
_UNFINISHED = re.compile(r"\s*()NAMESPACE\s*(?:[=\"']|[\w.:-]+\s*[:=]|[\w.-]+\s+[\"'])", re.I)
_FOREIGN = re.compile(
    r"\s*()(?:declare\s+(?:default\s+\w+\s+)?namespace\b|@?prefix\s+[\w.-]*:|xmlns[\w:.-]*\s*=)",
    re.I,
)
_EACH = 'write one after the other: NAMESPACE o = "..." NAMESPACE i = "..."'
_FORM = 'write NAMESPACE o = "http://..." before the query'


def broken_declaration(text: str) -> QueryError | None:
    """Return the error of what stands where a declaration or the query has to begin."""
    at, declared = 0, False
    while (found := _DECLARED.match(text, at)) is not None:
        at, declared = found.end(), True
    if (found := _UNFINISHED.match(text, at)) is not None:
        return _fault(text, found, "this declares no namespace", _FORM)
    if declared:
        if (found := _SIGN.match(text, at)) is not None:
            return _fault(text, found, "no sign stands between declarations of namespaces", _EACH)
        if (found := _WITHOUT_WORD.match(text, at)) is not None:
            return _fault(text, found, "the word NAMESPACE begins each declaration", _EACH)
    if (found := _FOREIGN.match(text, at)) is not None:
        return _fault(text, found, "a namespace is declared by the word NAMESPACE", _FORM)
    return None


def _fault(text: str, found: re.Match[str], message: str, hint: str) -> QueryError:
    return fault(text, Span(found.start(1)), message, hint)
