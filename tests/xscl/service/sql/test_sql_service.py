"""Questions beside an engine that goes on: what snapshots show, and what happens to processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest

from feeds.documents import Document
from tests.examples import usually
from tests.foreign import write_foreign_packages
from tests.waiting import PATIENCE, beside, eventually
from tests.xscl.inspection.divided import Divided, document
from xscl.engine.facade import Engine
from xscl.engine.queries import read_snapshot
from xscl.errors import SqlError
from xscl.inspection import rebuilt_relations
from xscl.service.accounts import THE_OPERATOR, Account
from xscl.service.sql import sql_service
from xscl.service.sql.errors import QueryRefused, Unavailable
from xscl.service.sql.snapshot import publish
from xscl.service.sql.sql_service import UserSql
from xscl.store.queries.relations import PUBLIC
from xscl.store.queries.tables import RELATIONS

ECHO = "S//a->x FOLLOWED BY{x=y, 1000 s} S//a->y"
CHAIN = "(S//a->x FOLLOWED BY{x=y, 10 s} S//a->y) FOLLOWED BY{y=z, 10 s} S//a->z"


def documents(first: int, count: int, stream: str = "S") -> list[Document]:
    return [Document(stream, f"d{n}", n, b"<a>hi</a>") for n in range(first, first + count)]


@pytest.fixture(scope="module")
def shared() -> Iterator[tuple[Engine, UserSql]]:
    """One engine and one fork server for all tests that only add to them."""
    with Engine() as engine, UserSql(engine) as sql:
        engine.subscribe("echo", ECHO)
        yield engine, sql


def test_a_snapshot_shows_what_the_engine_shows(shared: tuple[Engine, UserSql]) -> None:
    """Every relation: the operator's answer is that of the engine's own SQL."""
    engine, sql = shared
    engine.subscribe("chain", CHAIN)
    engine.subscribe("grouped", "S//a->x FOLLOWED BY{x=y, 5 s} S//a->y", stories=True)
    engine.subscribe("distinct", "SELECT DISTINCT * FROM S//a->x JOIN{x=y, 5 s} S//a->y")
    engine.push([*documents(1, 4), Document("S", "broken", 9, b"<a>"), *documents(1, 1, "T")])
    engine.push(documents(10, 3))
    seen = 0
    for name in [*PUBLIC, "R_T_1", "R_out_1"]:
        expected = engine.sql(f"SELECT * FROM {name}").to_pylist(maps_as_pydicts="strict")
        answer = sql.ask(f"SELECT * FROM {name}")
        names = [column.name for column in answer.columns]
        found = [dict(zip(names, row, strict=True)) for row in answer.rows()]
        assert sorted(map(str, found)) == sorted(map(str, expected)), name
        seen += len(found) > 0
    assert seen >= len(PUBLIC) * 2 // 3


@pytest.mark.parametrize("answers", usually([4, 12], 4))
def test_s11_never_half_a_batch(answers: int, shared: tuple[Engine, UserSql]) -> None:
    """While batches of seven come, each answer has whole batches, and what belongs to them."""
    engine, sql = shared
    stream, name = f"W{answers}", f"each{answers}"  # variants share the engine
    engine.stream(stream)
    engine.subscribe(name, f"{stream}//a->x")
    stop = threading.Event()

    def push() -> None:
        at = 0
        while not stop.is_set():
            engine.push(
                [Document(stream, f"{stream}-{at + n}", 100 + at, b"<a>x</a>") for n in range(7)]
            )
            at += 7
            time.sleep(0.01)

    counts = set()
    with beside(push, until=stop):
        for _ in range(answers):
            answer = sql.ask(
                f"SELECT (SELECT count(*) FROM documents WHERE list_contains(streams, '{stream}')),"
                f" (SELECT count(*) FROM matches WHERE subscription = '{name}'),"
                f" (SELECT count(*) FROM documents WHERE list_contains(streams, '{stream}'))"
            )
            ((first, matches, again),) = answer.rows()
            assert first % 7 == 0
            assert first == matches == again
            counts.add(first)
    assert len(counts) > answers // 4


def test_a_look_does_not_wait_for_a_long_push(tmp_path: Path) -> None:
    """While a push holds the engine, a look sees what was before it."""
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with engine.transactions.change() as state:
            found = state.documents.accept(documents(3, 1))
            state.arrived.append(found.arrivals)
            state.dataflow.shred(found.arrivals)
            state.dataflow.join()
            inside.set()
            leave.wait(PATIENCE)
            engine.ingest._commit(state)

    with Engine(tmp_path / "state.db") as engine, closing(engine.connect()) as store:
        engine.subscribe("echo", ECHO)
        engine.push(documents(1, 2))
        with read_snapshot(engine.transactions, store) as look:
            assert look.streams.num_rows == 1  # which is at hand from now on
        with beside(hold, until=leave):
            assert inside.wait(PATIENCE)
            with closing(publish(engine, store, THE_OPERATOR, None, 1)) as snapshot:
                assert snapshot.as_of.position == 1
            assert not leave.is_set()
        with closing(publish(engine, store, THE_OPERATOR, None, 1)) as later:
            assert later.as_of.position == 3


@pytest.mark.parametrize("query", usually([ECHO, CHAIN, "S//a->x"], CHAIN))
def test_a_user_sees_no_results_of_before_he_subscribed(
    shared: tuple[Engine, UserSql], query: str
) -> None:
    """Equal queries share results: those of others before tell nothing to a newcomer."""
    engine, sql = shared
    stream = f"V{len(query)}"  # variants share the engine
    query = query.replace("S//", f"{stream}//")
    mine, hers = len(query), 1_000 + len(query)

    def seen(number: int) -> tuple[int, list[int]]:
        answer = sql.ask("SELECT position FROM matches ORDER BY position", Account(number, ""))
        return answer.as_of.position, [position for (position,) in answer.rows()]

    engine.stream(stream)
    engine.subscribe(f"_{mine}.mine", query)
    engine.push(documents(1, 4, stream))
    before, theirs = seen(mine)
    assert before == max(theirs)
    engine.subscribe(f"_{hers}.mine", query)
    assert seen(hers) == (0, [])
    engine.push(documents(10, 4, stream))
    after, own = seen(hers)
    assert after == max(own) > before
    assert min(own) > before


def fork_server(sql: UserSql) -> sql_service._ForkServer:
    """Return the fork server that answers now."""
    assert sql.ask("SELECT 1").rows() == [[1]]
    assert sql._fork_server is not None
    return sql._fork_server


def test_whoever_is_killed_is_replaced(shared: tuple[Engine, UserSql]) -> None:
    _, sql = shared
    server = fork_server(sql)
    os.kill(server.pid, signal.SIGKILL)
    eventually(lambda: not server.alive)
    assert sql.ask("SELECT 3").rows() == [[3]]
    assert sql._fork_server is not server


def test_a_crash_of_a_child_is_told(shared: tuple[Engine, UserSql]) -> None:
    _, sql = shared
    server = fork_server(sql)

    def ask() -> str:
        with pytest.raises(QueryRefused) as refused:
            sql.ask("SELECT sleep_ms(10000)")  # it ends when its process is found and killed
        return refused.value.code

    with beside(ask) as (asked,):
        while not asked.done():  # the child of the question before may still be ending
            for pid in _busy(server.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSEGV)
            time.sleep(0.01)
    assert asked.result() == "sql_too_large"
    assert sql.ask("SELECT 1").rows() == [[1]]


def test_c7_without_room_for_a_snapshot_the_reason_is_told(tmp_path: Path) -> None:
    """A full disk (C7)."""
    full = OSError(28, "No space left on device")
    with Engine() as engine, UserSql(engine, tmp_path) as sql:
        assert sql.ask("SELECT count(*) FROM documents").rows() == [[0]]
        planted = patch.object(sql_service, "publish", side_effect=full)
        with planted, pytest.raises(Unavailable, match="no snapshot can be written"):
            sql.ask("SELECT 1", Account(3, ""))
        engine.push(documents(1, 1))
        assert sql.ask("SELECT count(*) FROM documents").rows() == [[1]]
    assert list(tmp_path.iterdir()) == []


MANY = {
    "binding": "SELECT 1000 + i // 10 AS doc, 1::INTEGER AS pair, (i % 10)::INTEGER AS node1,"
    " (i % 10)::INTEGER AS node2, i::UBIGINT AS key FROM range(1000000) t(i)",
    "times": "SELECT 1000 + i AS doc, i AS start, i AS ts, i AS clock, i AS rank, i AS base"
    " FROM range(100000) t(i)",
    "value": "SELECT i::UBIGINT AS key, 'a ' || i AS strVal FROM range(1000000) t(i)",
    "document": "SELECT 1000 + i AS doc, 'item/' || i AS id, 'x' AS given, 1::INTEGER AS version,"
    " ['S', 'feeds'] AS streams, i AS ts, i AS clock, i * 64 AS rank, i AS base, i AS first,"
    " 'x'::BLOB AS hash, false AS history, '' AS origin, i AS arrived FROM range(100000) t(i)",
}
"""SQL for the rows of tables that have a million witnesses."""


@pytest.mark.slow
def test_l3_a_million_witnesses_are_published(tmp_path: Path) -> None:
    with Engine(tmp_path / "store.db") as engine:
        for number in range(1_000):
            owner = f"_{number % 10}." if number % 10 else ""
            engine.subscribe(f"{owner}s{number}", ECHO.replace("1000", str(1000 + number)))
        engine.push(documents(1, 2))
        store = engine.connect()
        with store.transaction(), duckdb.connect() as made:
            for table, rows in MANY.items():
                found = made.sql(rows).to_arrow_table()
                if table in RELATIONS:
                    store.append(table, found)
                else:
                    store.insert(table, found.to_pydict())
        for viewer in (THE_OPERATOR, Account(7, "")):
            publish(engine, store, viewer, tmp_path, 1).close()
        with UserSql(engine, tmp_path) as sql:
            for viewer, own in ((THE_OPERATOR, 1000), (Account(7, ""), 100)):
                assert sql.ask("SELECT count(*) FROM subscriptions", viewer).rows() == [[own]]
                assert sql.ask("SELECT count(*) FROM R_bin", viewer).rows() == [[1_000_002]]
        store.close()


def _busy(pid: int) -> list[int]:
    """The children that have a question: they are nicer than the server, by 10 or up to 19."""
    nice = min(19, os.getpriority(os.PRIO_PROCESS, pid) + 10)
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        with suppress(ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, child) == nice:
                found.append(child)
    return found


def test_children_load_our_packages_where_foreign_ones_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_foreign_packages(tmp_path)
    monkeypatch.chdir(tmp_path)
    with Engine() as engine, UserSql(engine) as sql:
        assert list(sql.ask("SELECT 6 * 7").rows()) == [[42]]


# -- Users see the relations of joins that executors evaluate as if one engine did ---------


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
            streams = enumerate(("S", "_1.S", "R") * 2, first)
            both.push(
                [
                    document(n, n / 10, f"<e><k>{n % 3}</k><v>{n % 2}</v></e>", stream)
                    for n, stream in streams
                ]
            )
        yield [one, divided]


@pytest.mark.parametrize("viewer", usually(VIEWERS, THE_OPERATOR, HER))
def test_every_relation_has_the_rows_of_one_engine(sql: list[UserSql], viewer: Account) -> None:
    numbers = sql[0].ask("SELECT DISTINCT template FROM R_sub", viewer).rows()
    names = [*PUBLIC, *(f"{name}_{number}" for (number,) in numbers for name in ("R_T", "R_out"))]
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
