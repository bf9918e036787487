"""Conditions of a match for readers, who see `item 1`, `item 2` instead of ids."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.client import answers
from xscl.service.explanations import reworded


def numbered(edges: Sequence[answers.Edge], documents: Sequence[str]) -> list[answers.Edge]:
    """Return conditions whose texts have `item N` in place of the id of the N-th document."""
    longest_first = sorted(enumerate(documents, 1), key=lambda one: -len(one[1]))
    names = [(name, f"item {number}") for number, name in longest_first if name != "-"]
    return [reworded(edge, lambda text: _renamed(text, names)) for edge in edges]


def readable(found: answers.Diagnosis) -> answers.Diagnosis:
    """Return a diagnosis with `item N` in the conditions on its closest documents (`numbered`)."""
    closest = found.closest
    if closest is None:
        return found
    edges = numbered(closest.edges, closest.documents)
    return found.model_copy(update={"closest": closest.model_copy(update={"edges": edges})})


def _renamed(text: str, names: Sequence[tuple[str, str]]) -> str:
    for name, number in names:
        text = text.replace(name, number)
    return text
