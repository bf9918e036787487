"""Hints of joins name what stands in the query."""

from __future__ import annotations

import pytest

from xscl.errors import QueryError
from xscl.planning.compile import compile_query


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("S//a->one JOIN{one < other} S//b->other", "{one = other, 1 d}"),
        ("S//a->one FOLLOWED BY{contains(one, other)} S//b->other", "{one = other, 1 d}"),
        ("S//a->one NOT FOLLOWED BY{one = other} S//b->other", "{..., 1 w}"),
    ],
)
def test_a_join_that_needs_a_window(query: str, hint: str) -> None:
    with pytest.raises(QueryError) as refused:
        compile_query(query)
    assert str(refused.value.hint).endswith(hint)
