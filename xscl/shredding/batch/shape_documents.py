"""Documents of one shape: their nodes, and the texts of these, each read once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lxml import etree

from xscl.shredding.batch.shape import Shape
from xscl.shredding.nodes.values import string_value


class Alike:
    """Documents of one shape, by their places from 0; `docs` are their numbers."""

    __slots__ = ("_texts", "docs", "nodes", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.docs: list[int] = []
        self.nodes: list[Sequence[etree._Element]] = []
        self._texts: dict[int, list[Any]] = {}  # None: not read yet

    def add(self, doc: int, nodes: Sequence[etree._Element]) -> None:
        """Take a document in, before any is looked at."""
        self.docs.append(doc)
        self.nodes.append(nodes)

    def text(self, node: int, one: int) -> str:
        """Return the string value of a node in a document."""
        known = self._texts.get(node)
        if known is None:
            known = self._texts[node] = [None] * len(self.docs)
        text: str | None = known[one]
        if text is None:
            place, name = self.shape.structure.places[node]
            element = self.nodes[one][place]
            text = string_value(element) if name is None else str(element.get(name))
            known[one] = text
        return text

    def texts(self, node: int, which: Sequence[int]) -> list[str]:
        """Return the string values of a node in some documents."""
        if len(which) == 1:
            return [self.text(node, which[0])]
        known = self._texts.get(node)
        if known is None:
            known = self._texts[node] = [None] * len(self.docs)
        texts: list[str] = [known[one] for one in which]
        if None not in texts:
            return texts
        place, name = self.shape.structure.places[node]
        elements = [self.nodes[one][place] for one in which]
        if name is not None:
            texts = [str(element.get(name)) for element in elements]
        elif place in self.shape.structure.leaves:
            texts = [element.text or "" for element in elements]
        else:
            texts = [string_value(element) for element in elements]
        for one, text in zip(which, texts, strict=True):
            known[one] = text
        return texts
