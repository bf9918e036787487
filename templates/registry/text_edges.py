"""Value joins that compare texts otherwise than by equality, by pairs of variables.

The caller gives these pairs definitions of their own: a pair is in no equality, and on one side it
has one operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from templates.columns.columns import Column, unpack
from templates.model.join_graph import LEFT, RIGHT, JoinGraph
from templates.registry.members import RowColumns, add
from templates.text.text_comparisons import TextRole, text_operator

_NONE: Mapping[int, str] = MappingProxyType({})


class TextEdges:
    """The comparisons of texts of all rows of R_T, with the roles of their pairs of variables."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._far: tuple[dict[int, dict[int, str]], ...] = ({}, {})
        self._roles: dict[TextRole, dict[int, int]] = {}

    def count(self, graph: JoinGraph, rows: RowColumns, by: int) -> None:
        """Add `by` (1 or -1) for each of some rows of a template."""
        for place, edge in graph.text_joins.items():
            for number, count in Counter(rows[f"e{place}"]).items():
                self._count(number, edge.operator, by * count)

    def _count(self, edge: int, operator: str, by: int) -> None:
        before = self._rows.get(edge, 0)
        add(self._rows, edge, by)
        after = self._rows.get(edge, 0)
        if before and after:
            return
        ends = [int(one) for one in unpack(edge)]
        for side in (LEFT, RIGHT):
            near, far = ends[side], ends[1 - side]
            role = text_operator(operator).role(left=side == LEFT)
            add(self._roles.setdefault(role, {}), near, 1 if after else -1)
            if after:
                self._far[side].setdefault(near, {})[far] = operator
            else:
                del self._far[side][near][far]

    def far(self, near: int, side: int) -> Mapping[int, str]:
        """Return the pairs that a pair on one side (`LEFT` or `RIGHT`) is compared with, and how.

        By pair the operator of the edge.
        """
        return self._far[side].get(near, _NONE)

    def near(self, pairs: Column, side: int) -> Column:
        """Return a mask of the pairs that are compared on one side."""
        known = [pair for pair, far in self._far[side].items() if far]
        found: Column = np.isin(pairs, known)
        return found

    def of_role(self, role: TextRole) -> Mapping[int, int]:
        """Return the pairs with a role."""
        return self._roles.get(role, _NONE_COUNTED)


_NONE_COUNTED: Mapping[int, int] = MappingProxyType({})
