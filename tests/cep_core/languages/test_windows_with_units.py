"""Windows of queries have units where people write them; a bare number is one of ticks."""

from __future__ import annotations

import pytest

from cep_core import QueryError, refuse_bare_windows


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("sase", "EVENT SEQ(A a, B b) WITHIN «5»"),
        ("sase", "EVENT SEQ(A a, B b) WITHIN <= «5» AFTER MATCH RESTART"),
        ("sase", "EVENT SEQ(A a, (B b AND C c WITHIN «5»))"),
        ("sase", "EVENT SEQ(A a, !B b FOR «3»)"),
        ("eql", "SELECT * FROM t A @ «5»"),
        ("eql", "SELECT * FROM t A ; u B WHERE (A, B) OCCURS WITHIN «7»"),
        ("cel", "FROM A JOIN{f($1.x, 2) = $2.x, «5»} B"),
        ("cel", "SELECT COUNT(*) AS n FROM A WINDOW «5»"),
        ("cel", "FROM A JOIN{f($1.x, 5), 5 s} B"),
        ("cel", "FROM A NEXT{$1.x <= 5} B"),
        ("cel", "FROM A FOLD{$2.x > 1, $.x <= 5, $.n + 1 AS n} B"),
        ("cel", "FROM A JOIN{$1.x = $2.x, 0} B"),
        ("sase", "EVENT SEQ(A a, B b) WHERE a.x <= 5 AND within(a.y, 5) WITHIN 5 s"),
        ("sase", "EVENT SEQ(A a, !B b FOR 3 min)"),
        ("sase", "5"),
        ("sase", ""),
    ],
)
def test_a_bare_window_is_refused_at_its_place(language: str, text: str) -> None:
    before, _, number = text.partition("«")
    query = text.replace("«", "").replace("»", "")
    if not number:
        refuse_bare_windows(query, language)
        return
    with pytest.raises(QueryError, match="has no unit") as caught:
        refuse_bare_windows(query, language)
    assert caught.value.column == len(before) + 1
    assert "min'" in str(caught.value.hint)
