"""Status, explain and health of a service with executors: the place of each join, their absence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.xscl.commandline import called, failed
from tests.xscl.service.conftest import Running, eventually, filling, ok, serving
from tests.xscl.service.test_metrics import figures
from tests.xscl.spark.bucket_executors import EngineWithExecutors, ServiceExecutors
from xscl import Document
from xscl.errors import XsclError
from xscl.ingestion import pipeline
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import PipelineError
from xscl.ingestion.watches import STARTING, ExecutorsWatch

A, B = "S//a->x[./k->k1]", "S//b->y[./k->k2]"
EQUAL = f"{A} JOIN{{k1 = k2, 5 s}} {B}"
HERE = "stage 2 (template N, DuckDB above 64 documents)"
THERE = "executors, by the equality k1 = k2 (stage 2, template N)"
AWAY = PipelineError("nobody is there", hint="start it")


@pytest.mark.parametrize(
    ("query", "evaluators"),
    [
        (EQUAL, [THERE]),
        (f"{EQUAL} PUBLISH P", [THERE]),
        (f"{A} FOLLOWED BY{{k1 = k2 AND x != y, 5 s}} {B}", [THERE]),
        (f"{A} JOIN{{k1 = k2 AND k1 < k2, 5 s}} {B}", [f"{THERE}, Refine (residual test)"]),
        (f"{A} JOIN{{k1 = k2, INF}} {B}", [HERE, "its window is INF"]),
        (f"{A} JOIN{{contains(k1, k2), 5 s}} {B}", [HERE, "it compares texts by an index"]),
        (f"{A} JOIN{{k1 != k2, 5 s}} {B}", [f"{HERE}", "it has no equality"]),
        (
            f"{A} JOIN{{k1 = k2 OR contains(k1, k2), 5 s}} {B}",
            [f"{THERE}; {HERE}", "it compares texts"],
        ),
        (
            f"({EQUAL}) JOIN{{k3 = k1, 5 s}} S//c->z[./k->k3]",
            [THERE, HERE, "it joins the results of another join"],
        ),
        (
            f"P//x->x[./k->k1] JOIN{{k1 = k2, 5 s}} {B}",
            [HERE, "it reads a stream that a subscription publishes"],
        ),
        ("S//a->x", [f"stage 1 (automaton, on executors), {HERE}"]),
        (f"{A} NEXT{{k1 = k2}} {B}", ["core: Sequence"]),
    ],
)
def test_a_join_says_where_it_is_evaluated(query: str, evaluators: list[str]) -> None:
    with EngineWithExecutors() as engine:
        engine.subscribe("made", "S//b->x PUBLISH P")
        engine.subscribe("one", query)
        engine.push(Document("S", "d", 0, b"<a><k>1</k></a>"))
        assert [_beginning(line, evaluators) for line in _places(engine.explain("one"))] == [
            *evaluators
        ], engine.explain("one")


def _places(text: str) -> list[str]:
    found = re.findall(r"^(?:evaluated by|  not on executors): (.*)$", text, re.MULTILINE)
    return [re.sub(r"template \d+", "template N", line) for line in found]


def _beginning(line: str, of: list[str]) -> str:
    return next((one for one in of if line.startswith(one)), line)


def test_one_of_the_equalities_of_the_query_is_named() -> None:
    """Blocks with nodes of equal definitions have others that are not in the query."""
    query = "S//a[./k->k1][./k->k2] JOIN{k1 = k4 AND k2 = k3, 5 s} S//a[./k->k3][./k->k4]"
    with EngineWithExecutors() as engine:
        engine.subscribe("one", query)
        engine.push(Document("S", "d", 9, b"<a/>"))
        (place,) = _places(engine.explain("one"))
    assert re.match(r"executors, by the equality (k1 = k4|k2 = k3) \(", place)


# -- A service -----------------------------------------------------------------------------


@pytest.fixture
def executors(monkeypatch: pytest.MonkeyPatch) -> type[ServiceExecutors]:
    """The executors that services get; their `failure` is taken back."""
    monkeypatch.setattr("xscl.spark.executors.SparkExecutors", ServiceExecutors)
    monkeypatch.setattr(pipeline, "AGAIN", 0.05)
    monkeypatch.setattr(ServiceExecutors, "failure", None)
    return ServiceExecutors


@pytest.fixture
def place(home: DataDirectory) -> DataDirectory:
    with filling(home) as engine:
        engine.subscribe("equal", EQUAL)
        engine.subscribe("unequal", f"{A} JOIN{{k1 != k2, 5 s}} {B}")
    return home


@pytest.fixture
def running(place: DataDirectory, executors: type[ServiceExecutors]) -> Iterator[Running]:
    with serving(place, spark=True) as found:
        yield found


def test_without_a_master_documents_are_consumed_directly(place: DataDirectory) -> None:
    with serving(place) as running, running.client() as client:
        assert ok(client.get("/v1/status"))["service"]["consumer"] is None
        _send(running, "<a><k>1</k></a>")
        eventually(lambda: ok(client.get("/v1/status"))["service"]["consumer"] == "direct")


def _send(running: Running, *contents: str) -> None:
    with running.client() as client:
        for content in contents:
            ok(client.post("/v1/documents/S", content=content))


def test_all_surfaces_say_where_joins_are(running: Running) -> None:
    _send(running, "<a><k>1</k></a>", "<b><k>1</k></b>")
    at = ("--data", str(running.home.path))
    with running.client() as client:

        def service() -> dict[str, object]:
            found: dict[str, object] = ok(client.get("/v1/status"))["service"]
            return found

        eventually(lambda: service()["matches"] == 1)
        assert service()["executors"] == {"joins": 1, "here": 1, "away": None}
        assert service()["consumer"] == "spark"
        health = ok(client.get("/v1/health"))
        assert (health["executors"], health["executors_away_since"]) == ("ok", None)
        found = figures(client)
        assert found["xscl_joins_by_place", "executors"] == 1
        assert found["xscl_joins_by_place", "here"] == 1
        assert found["xscl_executors_away", ""] == 0
        page = client.get("/status").text
        assert "<dt>Joins on executors</dt><dd>1<span" in page
        assert "Executors away" not in page
        text = ok(client.get("/v1/subscriptions/equal/explain"))["text"]
        assert "evaluated by: executors, by the equality k1 = k2 (stage 2, template " in text
        assert "executors, by the equality k1 = k2" in client.get("/subscriptions/equal").text
        other = ok(client.get("/v1/subscriptions/unequal/explain"))["text"]
        assert "  not on executors: it has no equality between two nodes" in other.splitlines()
        with running.user("alice") as alice:
            assert ok(alice.get("/v1/status"))["service"] is None
            asked = alice.post("/v1/explain", json={"query": EQUAL})
            assert "executors" not in ok(asked)["text"], "it is not registered"
    assert "\nexecutors      1 join; here: 1\n" in called("status", *at).stdout
    assert json.loads(called("status", "--json", *at).stdout)["executors"]["joins"] == 1
    shown = called("status", "--url", running.address).stdout
    assert "\nexecutors      1 join; here: 1\n" in shown
    assert "executors, by the equality k1 = k2" in called("explain", "equal", *at).stdout


def test_documents_wait_for_executors_that_are_away_and_everybody_is_told(
    place: DataDirectory,
    executors: type[ServiceExecutors],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(executors, "failure", AWAY)
    monkeypatch.setattr("tests.xscl.service.conftest.MASTER", "spark://127.0.0.1:1")
    with serving(place, spark=True) as running, running.client() as client:
        _send(running, "<a><k>1</k></a>", "<b><k>1</k></b>")
        registered = client.put("/v1/subscriptions/more", json={"query": "S//a->x"})
        assert ok(registered)["name"] == "more"

        def away() -> dict[str, str] | None:
            found: dict[str, dict[str, str]] = ok(client.get("/v1/status"))["service"]
            return found["executors"]["away"]  # type: ignore[return-value]

        eventually(lambda: (away() or {}).get("reason") == "nobody is there")
        assert (away() or {})["hint"] == "start it"
        health = ok(client.get("/v1/health"))
        assert health["executors"] == "away"
        assert health["executors_away_since"] == (away() or {})["since"]
        assert figures(client)["xscl_executors_away", ""] == 1
        assert figures(client)["xscl_waiting", ""] == 2
        page = client.get("/status").text
        assert "<dt>Executors away</dt><dd>since " in page
        assert "nobody is there. start it. documents wait in the spool until Spark is there" in page
        shown = called("status", "--data", str(place.path)).stdout
        since = r"away           executors, since \d{4}-\d\d-\d\d.*: nobody is there\n"
        waits = r" {15}documents wait in the spool; Spark is asked every 5 s while some do\n"
        assert re.search(f"\n{since}{waits} {{15}}start it\n", shown), shown
        assert "2 documents wait" in shown
        assert caplog.text.count("documents wait in the spool: nobody is there") == 1
        monkeypatch.setattr(executors, "failure", None)
        eventually(lambda: ok(client.get("/v1/status"))["service"]["matches"] == 2)
        eventually(lambda: away() is None)
        assert ok(client.get("/v1/health"))["executors"] == "ok"


def test_a_master_on_this_machine_is_there_or_the_service_ends(
    place: DataDirectory, executors: type[ServiceExecutors], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "failure", AWAY)
    with pytest.raises(PipelineError, match="nobody is there"), serving(place, spark=True):
        pass


def test_a_run_that_ends_waits_for_no_master(
    place: DataDirectory, executors: type[ServiceExecutors], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "failure", AWAY)
    told = failed(1, "serve", "--once", "--master", "spark://head:7077", "--data", str(place.path))
    assert told == "xscl: nobody is there\nhint: start it\n"


# -- The watch -----------------------------------------------------------------------------


def test_executors_are_away_until_they_are_there(caplog: pytest.LogCaptureFixture) -> None:
    times = iter([5, 7, 9])
    watch = ExecutorsWatch(lambda: next(times))
    assert watch.away is not None
    assert (watch.away.since, watch.away.reason) == (5, STARTING)
    for _ in range(2):  # the second time the reason is known
        watch.note(AWAY)
    assert (watch.away.since, watch.away.reason, watch.away.hint) == (5, *_told(AWAY))
    watch.note(PipelineError("another"))
    for _ in range(2):
        watch.note(None)
    assert watch.away is None
    watch.note(AWAY)
    assert watch.away is not None
    assert watch.away.since == 7, "since then again"
    told = [record.message.partition(": ")[2] for record in caplog.records]
    assert told == [
        AWAY.message,
        "another",
        "documents are taken from the spool again",
        AWAY.message,
    ]


def _told(error: XsclError) -> tuple[str, str | None]:
    return error.message, error.hint
