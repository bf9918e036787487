"""SQL over HTTP: group S of the promises, through one running service with two users."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow.parquet as pq
import pytest

from feeds.documents import Document
from tests.waiting import eventually
from tests.xscl.service.conftest import Running, code, filling, ok, serving
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.accounts import Accounts
from xscl.service.routes.sql import EXAMPLES
from xscl.service.sql.limits import Limits
from xscl.service.sql.sql_service import UserSql

ECHO = "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y"
FORMULA = '=HYPERLINK("http://x.example","a\nb")'


@dataclass(frozen=True)
class Asker:
    """Someone who asks."""

    client: httpx.Client

    def post(self, query: str, **more: Any) -> httpx.Response:
        return self.client.post("/v1/sql", json={"query": query, **more})

    def rows(self, query: str, **more: Any) -> list[list[Any]]:
        return list(ok(self.post(query, **more))["rows"])

    def code(self, query: str, status: int = 422) -> str:
        done = self.post(query)
        assert "Traceback" not in done.text
        answered, found = code(done)
        assert answered == status, done.text
        return found


def document(stream: str, name: str, ts: int, text: str = "hi") -> Document:
    return Document(stream, name, ts, f"<a>{text}</a>".encode())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with things of two users; what answers is loaded by the first question."""
    home = DataDirectory(tmp_path_factory.mktemp("sql") / "data")
    with filling(home) as engine, closing(engine.connect()) as store:
        accounts = Accounts(store)
        assert [accounts.make(name).number for name in ("alice", "bob")] == [1, 2]
        engine.subscribe("_1.alices-own", ECHO)
        engine.subscribe("_2.bobs-own", ECHO)
        engine.subscribe("_2.bobs-secret", "_2.hush//a->x JOIN{x=y, 10 s} S//a->y")
        engine.subscribe("everybodys", "S//a->x JOIN{x=y, 9 s} S//b->y")
        engine.push(
            [
                document("S", "d1", 1),
                document("S", "d2", 2),
                document("S", "formula", 3, FORMULA.replace('"', "&quot;")),
                document("S", "formula2", 4, FORMULA.replace('"', "&quot;")),
                document("_1.mine", "a1", 5, "alice only"),
                document("_2.hush", "b1", 6),
                Document("_2.hush", "broken", 7, b"<a>bobs broken"),
            ]
        )
    with serving(home) as found:
        yield found


@pytest.fixture(scope="module")
def anybody(operator: httpx.Client) -> Asker:
    return Asker(operator)


@pytest.fixture(scope="module")
def users(alice: httpx.Client, bob: httpx.Client) -> dict[str, Asker]:
    return {"alice": Asker(alice), "bob": Asker(bob)}


@contextmanager
def limited(seconds: float = Limits().seconds) -> Iterator[None]:
    """Apply a time limit, by default that of users: elsewhere questions have more time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UserSql, "limits", property(lambda _: Limits(seconds=seconds)), raising=False)
        yield


# -- What is answered ----------------------------------------------------------------------


def test_an_answer_says_what_it_shows(anybody: Asker) -> None:
    answer = anybody.post("SELECT id FROM documents ORDER BY id LIMIT 1").json()
    assert answer["columns"] == [{"name": "id", "type": "VARCHAR"}]
    assert answer["rows"] == [["a1"]]
    assert (answer["count"], answer["truncated"]) == (1, False)
    assert answer["as_of"]["position"] == anybody.rows("SELECT max(position) FROM matches")[0][0]
    assert answer["as_of"]["clock"] == "1970-01-01T00:00:00.000006Z"
    assert answer["as_of"]["taken"] > "2026"


def test_examples_can_be_asked_as_they_are(anybody: Asker, users: dict[str, Asker]) -> None:
    shown = anybody.client.get("/v1/sql/examples").json()
    assert [one["title"] for one in shown] == [one.title for one in EXAMPLES]
    answers = {one["title"]: users["bob"].rows(one["query"]) for one in shown}
    assert answers["Matches by subscription"] == [["bobs-own", 2], ["bobs-secret", 2]]
    assert answers["What was not taken, and why"][0][:2] == ["xml_syntax", 1]


def test_all_relations_are_listed_with_their_columns(users: dict[str, Asker]) -> None:
    answer = users["alice"].client.get("/v1/sql/relations").json()
    assert {"R_T_1", "R_out_1", "relations"} <= {row[0] for row in answer["rows"]}
    assert ["documents", "id", "VARCHAR"] in [row[:3] for row in answer["rows"]]
    for name in ("documents", "matches", "late", "rejected", "R_L", "R_T_1", "R_out_1"):
        columns = [row[1] for row in answer["rows"] if row[0] == name]
        answered = users["alice"].post(f"FROM {name} LIMIT 1").json()
        assert [column["name"] for column in answered["columns"]] == columns


# -- Two users -----------------------------------------------------------------------------


def test_users_see_what_is_public_and_their_own(users: dict[str, Asker]) -> None:
    alice, bob = users["alice"], users["bob"]
    ids = "SELECT id, streams FROM documents ORDER BY id"
    public = [[name, ["S"]] for name in ("d1", "d2", "formula", "formula2")]
    assert alice.rows(ids) == [["a1", ["mine"]], *public]
    assert bob.rows(ids) == [["b1", ["hush"]], *public]
    assert alice.rows("SELECT name, template, qid FROM subscriptions") == [["alices-own", 1, 1]]
    assert bob.rows("SELECT subscription, qid FROM R_sub") == [["bobs-own", 1], ["bobs-secret", 2]]
    assert bob.rows("SELECT query FROM subscriptions WHERE name = 'bobs-secret'") == [
        ["hush//a->x JOIN{x=y, 10 s} S//a->y"]
    ]
    assert alice.rows("SELECT subscription, documents FROM matches ORDER BY position") == [
        ["alices-own", ["d1", "d2"]],
        ["alices-own", ["formula", "formula2"]],
    ]
    assert alice.rows("SELECT count(*) FROM rejected") == [[0]]
    assert bob.rows("SELECT stream, id FROM rejected") == [["hush", "broken"]]


def test_s6_nothing_of_others_is_in_any_relation(users: dict[str, Asker]) -> None:
    """Every relation, whole: no marker of the other user, no path, no number of his."""
    for name, hidden in (("alice", r"bob|hush|b1\b|_2\."), ("bob", r"alice|mine|\ba1\b|_1\.")):
        user = users[name]
        relations = {row[0] for row in user.client.get("/v1/sql/relations").json()["rows"]}
        assert {"documents", "R_bin", "R_T_1", "R_out_1"} <= relations
        texts = (f"SELECT '{one}', t::VARCHAR FROM {one} t" for one in sorted(relations))
        answer = user.post(" UNION ALL ".join(texts), rows=100_000).json()
        assert {row[0] for row in answer["rows"]} >= {"documents", "R_bin", "R_T_1", "R_doc"}
        assert [row for row in answer["rows"] if re.search(hidden, row[1] or "")] == []
        for question in ("FROM R_T_9", "FROM documentz", "SELECT x FROM documents", "SELEC"):
            assert not re.search(hidden, user.post(question).text)


# -- S: abuse ------------------------------------------------------------------------------


NO_SELECTS = (
    *("INSERT INTO documents VALUES (1)", "DROP TABLE documents", "CREATE TABLE x AS SELECT 1"),
    *("COPY documents TO 'x.csv'", "EXPORT DATABASE 'x'", "ATTACH 'x.duckdb'", "INSTALL httpfs"),
    *("LOAD httpfs", "PRAGMA database_list", "SET threads = 8", "CALL pragma_version()", "BEGIN"),
    *("CHECKPOINT", "PREPARE p AS SELECT 1", "EXPLAIN ANALYZE SELECT 1"),
    "CREATE SECRET s (TYPE s3)",
    "MERGE INTO documents USING documents ON true WHEN MATCHED THEN DELETE",
    "WITH x AS (INSERT INTO documents VALUES (1) RETURNING id) SELECT * FROM x",
    *("SELECT 1; DROP TABLE w", "SELECT 1 -- ;\n; SELECT 2", "SELECT 1 /* ; */; /* */ SELECT 2"),
    *("", "-- nothing", "SELECT '\0'", "SELECT $1"),
)


@pytest.mark.parametrize("statement", NO_SELECTS, ids=range(len(NO_SELECTS)))
def test_s1_s3_what_is_no_single_select_is_refused(anybody: Asker, statement: str) -> None:
    assert anybody.code(statement) == "sql_not_select"


def test_s3_one_select_only_with_clear_messages(anybody: Asker) -> None:
    assert anybody.code("SELECT '" + "x" * 1_400_000 + "'") == "sql_too_complex"
    assert anybody.code("SELECT 1 FRM documents WHERE") == "sql"


def test_s3_a_body_of_five_megabytes_is_not_read(anybody: Asker) -> None:
    assert anybody.code("SELECT '" + "x" * 5_000_000 + "'", 413) == "body_too_large"


def test_s3_comments_and_one_semicolon_are_fine(anybody: Asker) -> None:
    assert anybody.rows("/* ; DROP */ SELECT ';' AS x -- ; DROP TABLE x\n;") == [[";"]]


def test_s3_a_mistake_has_its_place(anybody: Asker) -> None:
    problem = anybody.post("SELECT id\nFROM dokuments").json()
    assert (problem["line"], problem["column"]) == (2, 6)
    assert problem["hint"].startswith("did you mean documents")


TABLES = (
    *("read_csv('/etc/passwd')", "read_text('/etc/passwd')", "read_blob('/proc/self/environ')"),
    *("glob('/*')", "sqlite_scan('state.sqlite', 'account')", "'/etc/passwd'", '"/etc/passwd"'),
    *("'https://example.org/x.csv'", "os", "tables", "query('SELECT 1')", "python_map_function()"),
    *("pandas_scan(1)", "kept_document", "state.document", "memory.main.documents"),
    "json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
)
"""Files and objects of a database that nobody may read."""

CATALOGS = (
    *("SELECT * FROM duckdb_settings()", "SELECT sql FROM duckdb_tables"),
    *("SELECT * FROM pragma_database_list()", "SELECT * FROM information_schema.tables"),
    "SELECT * FROM sqlite_master",
    "WITH duckdb_tables AS (SELECT 1) SELECT * FROM duckdb_tables",
    "SELECT current_setting('secret_directory')",
    "SELECT [current_setting(x) FOR x IN ['temp_directory']]",
    "SELECT list_transform(['threads'], lambda x: current_setting(x))",
    *("SELECT getenv('HOME')", "SELECT json_serialize_plan('SELECT 1')"),
    *("SELECT * FROM (DESCRIBE documents)", "SHOW TABLES", "DESCRIBE documents"),
    "SUMMARIZE documents",
)


@pytest.mark.parametrize("table", TABLES)
def test_s4_no_file_and_no_object_is_reached(anybody: Asker, table: str) -> None:
    done = anybody.post(f"WITH x AS (SELECT * FROM {table}) SELECT (SELECT count(*) FROM x)")
    assert code(done) in {(422, "sql_not_allowed"), (422, "sql_unknown_relation")}
    assert "root:" not in done.text


@pytest.mark.parametrize("question", CATALOGS)
def test_s6_no_setting_no_path_no_catalog(anybody: Asker, question: str) -> None:
    done = anybody.post(question)
    refusals = ("sql_not_allowed", "sql_unknown_relation", "sql_not_select")
    assert code(done) in [(422, one) for one in refusals]
    assert str(Path.home()) not in done.text
    assert "/tmp" not in done.text


@pytest.mark.parametrize(
    "question",
    [
        "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c",
        "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT max(n) FROM x",
        "SELECT sleep_ms(60000)",
    ],
)
def test_s7_what_takes_too_long_is_stopped(anybody: Asker, question: str) -> None:
    with limited(0.5):
        assert anybody.code(question) in {"sql_timeout", "sql_too_large"}
    assert anybody.rows("SELECT 1") == [[1]]


@pytest.mark.parametrize(
    "question",
    [
        " UNION ALL ".join(["SELECT 1"] * 3000),
        "SELECT " + "(" * 2000 + "1" + ")" * 2000,
        "SELECT " + "+".join(["1"] * 20_000),
        "SELECT " + "[" * 900 + "]" * 900,
        "SELECT * FROM " + "(SELECT * FROM " * 900 + "documents" + ")" * 900,
        "SELECT " + "CASE WHEN true THEN " * 500 + "1" + " END" * 500,
    ],
    ids=range(6),
)
def test_s7_what_is_nested_deeply_does_no_harm(anybody: Asker, question: str) -> None:
    with limited():
        done = anybody.post(question)
    assert done.status_code in {200, 422}, done.text
    assert anybody.rows("SELECT 1") == [[1]]


def test_s7_one_users_question_delays_nobody_else(users: dict[str, Asker]) -> None:
    """Bob is answered while questions of Alice wait: were there one queue, he never would be.

    A busy machine may answer him later than Alice's short limits end, so they grow.
    """
    endless = "SELECT sleep_ms(60000)"

    def overtakes(seconds: float) -> bool:
        with ThreadPoolExecutor(8) as threads:
            with limited(seconds):
                alices = [threads.submit(users["alice"].post, endless) for _ in range(8)]
                eventually(lambda: sum(one.done() for one in alices) >= 5)
            assert users["bob"].rows("SELECT 1") == [[1]]
            waiting = sum(not one.done() for one in alices)
            codes = sorted(one.result().json()["code"] for one in alices)
        assert codes == ["sql_busy"] * 5 + ["sql_timeout"] * 3
        return waiting > 0

    assert any(overtakes(seconds) for seconds in (Limits().seconds, 6.0, 12.0))


def test_s9_rows_are_capped(anybody: Asker) -> None:
    answer = anybody.post("SELECT * FROM range(100000000)").json()
    assert (answer["count"], answer["truncated"]) == (1000, True)
    assert answer["rows"][-1] == [999]
    assert len(anybody.rows("SELECT * FROM range(100000000)", rows=20_000)) == 20_000
    exact = anybody.post("SELECT * FROM range(1000)").json()
    assert (exact["count"], exact["truncated"]) == (1000, False)
    for rows in (0, -1, 10**9):
        assert anybody.post("SELECT 1", rows=rows).status_code == 422


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_s9_bytes_are_capped(anybody: Asker, form: str) -> None:
    wide = "SELECT repeat('x', 10000) || range FROM range(100000)"
    done = anybody.post(wide, rows=100_000, format=form)
    assert 100_000 < len(done.content) < 6_000_000 or form == "parquet"
    cut = done.json()["truncated"] if form == "json" else done.headers["xscl-truncated"] == "true"
    assert cut is True


@pytest.mark.parametrize("size", [50_000, 400_000, 1_200_000])
@pytest.mark.parametrize("columns", ["i, {text}", "i, {text}, NULL::VARCHAR, {text}"])
def test_s9_rows_with_long_texts_are_cut_and_not_refused(
    anybody: Asker, size: int, columns: str
) -> None:
    shown = columns.format(text=f"repeat('x', {size})")
    answer = anybody.post(f"SELECT {shown} FROM range(1200) t(i)").json()
    expected = Limits().size // (size * columns.count("{") + 30)
    assert answer["truncated"]
    assert [row[0] for row in answer["rows"]] == list(range(expected))


def test_s9_one_huge_value_is_stopped(anybody: Asker) -> None:
    for value in ("repeat('x', 4000000000)", "(SELECT list(range) FROM range(1000000000))"):
        assert anybody.code(f"SELECT {value}") in {"sql_too_large", "sql_timeout", "sql"}


def test_s9_a_value_and_columns_that_are_too_many(anybody: Asker) -> None:
    assert anybody.code("SELECT repeat('x', 6000000)") == "sql_too_large"
    columns = ", ".join(f"{n}" for n in range(Limits().columns + 1))
    assert anybody.code(f"SELECT {columns}") == "sql_too_large"


@pytest.mark.parametrize("text", ["oops", "Out of Memory"])
def test_what_is_wrong_with_a_later_row_is_told(anybody: Asker, text: str) -> None:
    """Rows are on their way by then."""
    late = f"SELECT (CASE WHEN range < 5000 THEN '1' ELSE '{text}' END)::INTEGER FROM range(6000)"
    done = anybody.post(late, rows=10_000)
    assert (done.status_code, done.json()["code"]) == (422, "sql"), done.text
    assert f"Could not convert string '{text}'" in done.json()["detail"]


def test_s9_whatever_a_value_is_the_json_is_valid(anybody: Asker) -> None:
    done = anybody.post(
        "SELECT 'nan'::DOUBLE, 'infinity'::FLOAT, '-infinity'::DOUBLE, 1.5::FLOAT,"
        " 170141183460469231731687303715884105727::HUGEINT, sum(i), '\\xFF\\x00a'::BLOB,"
        " DATE '12000-01-01', DATE '0044-03-15 (BC)', INTERVAL 3 MONTH, TIMESTAMP 'infinity',"
        " 1.25::DECIMAL(10, 2), [1, NULL], ['a'], {'n': 'nan'::DOUBLE}, MAP {'k': 1}, TIME '1:02',"
        " uuid '00000000-0000-0000-0000-000000000001', true, NULL, 'é\u2028\u202e</script>',"
        " '101'::BIT, 18446744073709551615::UBIGINT, ['nan'::DOUBLE]"
        " FROM range(3) t(i)"
    )
    assert done.status_code == 200, done.text

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    ((*row,),) = json.loads(done.content, parse_constant=refuse)["rows"]
    assert row[:6] == [None, None, None, 1.5, 2**127 - 1, 3]
    assert row[6:12] == [
        *("\\xFF\\x00a", "12000-01-01", "0044-03-15 (BC)", "3 months", "infinity", 1.25),
    ]
    assert row[12:17] == [[1, None], ["a"], "{'n': nan}", "{k=1}", "01:02:00"]
    assert row[18:] == [True, None, "é\u2028\u202e</script>", "101", 2**64 - 1, "[nan]"]
    assert all(not isinstance(value, float) or math.isfinite(value) for value in row)


def test_s9_the_same_values_as_csv_and_parquet(anybody: Asker) -> None:
    question = (
        "SELECT sum(i) AS whole, 'nan'::DOUBLE AS nan, DATE '2024-02-29' AS day, 'x' AS day,"
        " INTERVAL 1 DAY AS span, '\\xFF'::BLOB AS bytes, [1, 2] AS listed, NULL AS none"
        " FROM range(3) t(i)"
    )
    table = pq.read_table(io.BytesIO(anybody.post(question, format="parquet").content))
    (row,) = table.to_pylist()
    assert (int(row["whole"]), row["day_2"], row["bytes"]) == (3, "x", b"\xff")
    assert (row["listed"], row["span"]) == ([1, 2], "1 day")
    text = anybody.post(question, format="csv").text
    assert list(csv.reader(io.StringIO(text))) == [
        ["whole", "nan", "day", "day", "span", "bytes", "listed", "none"],
        ["3", "nan", "2024-02-29", "x", "1 day", "\\xFF", "[1, 2]", ""],
    ]


def test_s12_csv_is_quoted_and_formulas_are_escaped(anybody: Asker) -> None:
    question = (
        "SELECT DISTINCT strVal, -1 AS number, '@x' AS at, '+1' AS plus, '\ty' AS tab,"
        " '=1'::BLOB AS blob FROM R_doc WHERE strVal LIKE '=%'"
    )
    done = anybody.post(question, format="csv")
    assert done.headers["content-type"].startswith("text/csv")
    assert done.headers["x-content-type-options"] == "nosniff"
    assert done.headers["content-disposition"].startswith("attachment")
    names, row = csv.reader(io.StringIO(done.text, newline=""), strict=True)
    assert names == ["strVal", "number", "at", "plus", "tab", "blob"]
    assert row == [f"'{FORMULA}", "-1", "'@x", "'+1", "'\ty", "'=1"]
    named = anybody.post('SELECT 1 AS "=cmd"', format="csv").text
    assert named.splitlines()[0] == "'=cmd"


@pytest.mark.parametrize(
    "name", ["documents]", 'documents"; --', "documents'--", "documents; DROP", "..", "R_T_1 x;--"]
)
def test_s13_no_name_reaches_another_relation(anybody: Asker, name: str) -> None:
    quoted = name.replace('"', '""')
    assert anybody.code(f'SELECT * FROM "{quoted}"') == "sql_unknown_relation"
    done = anybody.client.get(f"/v1/sql/{name}")
    assert done.status_code in {404, 405}
    for path in ("/v1/matches?before=", "/v1/rejected?after=", "/v1/late?limit="):
        asked = anybody.client.get(path + quote(name))
        assert asked.json()["code"] == "invalid_request"
    page = anybody.client.get("/witnesses", params={"subscription": f"x' OR {name}"})
    written = f"x' OR {name}".replace("'", "''")
    assert f"WHERE subscription = '{written}'" in html.unescape(page.text)


def test_s4_an_answering_process_has_no_more_than_it_needs(anybody: Asker) -> None:
    """While a question runs, its process has no files open but its snapshot and its sockets.

    A file that is open in one of several looks only is read in passing, such as a limit of memory.
    """
    with ThreadPoolExecutor(1) as threads:

        def seen() -> set[str] | None:
            asked = threads.submit(anybody.post, "SELECT sleep_ms(900)")
            found = None
            while not asked.done():
                time.sleep(0.02)
                children = (child for one in _fork_servers() for child in _children(int(one)))
                opened = next(filter(None, map(_opened_by, children)), None)
                if opened is not None:
                    found = opened if found is None else found & opened
            assert asked.result().status_code == 200
            return found

        found = eventually(seen)  # a busy machine may look at it too late
    kinds = {re.sub(r"[0-9]+", "", name) for name in found if "(deleted)" not in name}
    assert kinds <= {"/dev/null", "socket:[]"}
    (environment,) = {_said(server, "environ") for server in _fork_servers()}
    assert set(re.findall(r"(\w+)=", environment.decode())) == _VARIABLES


_VARIABLES = {"PYTHONPATH", "OPENBLAS_NUM_THREADS", "LC_ALL"}


def _fork_servers() -> list[str]:
    """The fork servers of this process."""
    return [
        p for p in _children(os.getpid()) if b"xscl.service.sql.fork_server" in _said(p, "cmdline")
    ]


def _children(pid: int) -> list[str]:
    tasks = (f"{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task"))
    return [child.decode() for task in tasks for child in _said(task, "children").split()]


def _opened_by(pid: str) -> set[str] | None:
    """The open files of a child; None if it runs no query (then it is as nice as this process)."""
    nice = min(19, os.nice(0) + 10)
    try:
        if os.getpriority(os.PRIO_PROCESS, int(pid)) != nice:
            return None
        return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return None


def _said(pid: str, what: str) -> bytes:
    """The kernel's status of a process, empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""
