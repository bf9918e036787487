"""Users see the relations of joins that executors evaluate as if one engine did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.examples import usually
from tests.xscl.inspection.divided import Divided, document
from xscl.errors import SqlError
from xscl.inspection import rebuilt_relations
from xscl.service.accounts import THE_OPERATOR, Account
from xscl.service.sql import UserSql
from xscl.store.queries.relations import PUBLIC

QUERIES = {
    "_1.mine": "S//e->a[./k->x] FOLLOWED BY{x = y, 9 s} S//e->b[./k->y]",
    "_1.values": "_1.S//e->a[.//v->x] JOIN{x = y, 9 s} R//e->b[./v->y]",
    "_2.hers": "S//e->a[./k->x] FOLLOWED BY{x = y, 5 s} S//e->b[./k->y]",
    "_2.two": "S//e->a[./k->x][./v->v] JOIN{x = y AND v = w, 9 s} S//e->b[./k->y][./v->w]",
    "open": "S//e->a[./v->x] JOIN{x = y, 9 s} R//e->b[./v->y]",
}
HER = Account(2, "")
VIEWERS = (THE_OPERATOR, Account(1, ""), HER, Account(3, ""))


@pytest.fixture(scope="module")
def sql() -> Iterator[list[UserSql]]:
    """The SQL of one engine, and of one that leaves joins to executors."""
    with Divided() as both, UserSql(both.one) as one, UserSql(both.divided) as divided:
        for name, query in QUERIES.items():
            both.subscribe(name, query)
        for first in (1, 7):
            both.push(
                [
                    document(n, n / 10, f"<e><k>{n % 3}</k><v>{n % 2}</v></e>", stream)
                    for n, stream in zip(
                        range(first, first + 6), ("S", "_1.S", "R") * 2, strict=True
                    )
                ]
            )
        yield [one, divided]


@pytest.mark.parametrize("viewer", usually(VIEWERS, THE_OPERATOR, HER))
def test_every_relation_has_the_rows_of_one_engine(sql: list[UserSql], viewer: Account) -> None:
    templates = [
        f"{name}_{number}"
        for (number,) in sql[0].ask("SELECT DISTINCT template FROM R_sub", viewer).rows()
        for name in ("R_T", "R_out")
    ]
    names = [*PUBLIC, *templates]
    every = " UNION ALL ".join(f"SELECT '{one}', t::VARCHAR FROM {one} t" for one in names)
    one, divided = (
        Counter(map(tuple, each.ask(every, viewer, rows=10_000).rows())) for each in sql
    )
    lent = {"R_vj", "R_L", "R_R"}  # what no row of R_T needs is not made
    assert not divided - one
    assert {name for name, _ in one - divided} <= lent
    if viewer.number != 3:
        seen = {name for name, _ in divided}
        assert seen >= {"R_bin", "R_doc", "R_docTS", "R_binW", "R_docW", "R_vj", "R_out_1"}


def test_they_are_made_for_questions_that_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with Divided() as both, UserSql(both.divided) as sql:
        both.subscribe("open", QUERIES["open"])
        both.push([document(n, n, "<e><v>1</v></e>", stream) for n, stream in enumerate("SRS")])
        with monkeypatch.context() as few:
            few.setattr(rebuilt_relations, "MOST", 0)
            assert sql.ask("SELECT count(position) FROM matches").rows() == [[2]]
            with pytest.raises(SqlError, match="would be made from 3 documents, more than 0"):
                sql.ask("SELECT count(*) FROM R_bin")
        assert sql.ask("SELECT count(*) FROM R_bin").rows() == [[3]]
        both.push([document(3, 3, "<e><v>1</v></e>")])
        asked = "SELECT (SELECT count(*) FROM R_bin), (SELECT count(values) FROM matches)"
        assert sql.ask(asked).rows() == [[4, 3]]
        assert sql.ask("SELECT count(*) FROM R_out_1").rows() == [[1]]
