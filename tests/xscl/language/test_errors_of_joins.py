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


@pytest.mark.parametrize(
    "query",
    [
        "S//r[./k->x] FOLD{$2.x = $.x, $2.x != $1.x, upper-case(tokenize($2.x, 'a')) AS n}"
        " S//r[./k->x]",
        "S//r[./k->x] FOLD{tokenize($2.x, 'a') = $.x, $2.x != $1.x, $2.x AS n} S//r[./k->x]",
        "S//r[./k->x] FOLD{$2.x = $.x, tokenize($2.x, 'a') != $1.x, $2.x AS n} S//r[./k->x]",
        "S//r[./k->x] NEXT{tokenize($2.x, 'a') = $1.x} S//r[./k->x]",
    ],
)
def test_several_values_in_an_operator_over_time(query: str) -> None:
    with pytest.raises(QueryError, match="several values, in an operator over time"):
        compile_query(query)
