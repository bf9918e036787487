"""The operator's view of the service: Prometheus metrics, and status."""

from __future__ import annotations

import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.commandline import called, json_rows
from tests.xscl.polling.scripted import DAY, Clock
from tests.xscl.service.conftest import Running, code, eventually, ok, serving
from xscl.client.bodies import ticks_of
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_repository import ticks
from xscl.service import status
from xscl.service.logs import LogFormat, OneLine, clean, logging_to
from xscl.service.status import STEP, StatusSeries

Figures = dict[tuple[str, str], float]

TWICE = "zebra//a->x FOLLOWED BY{x=y, 10 s} zebra//a->y"


def figures(operator: httpx.Client) -> Figures:
    """The figures by name and labels, as a parser of the format reads them."""
    answer = operator.get("/v1/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_figures_follow_what_happens(operator: httpx.Client, alice: httpx.Client) -> None:
    ok(alice.put("/v1/streams/zebra", json={}))
    for name in ("zebras", "others"):
        ok(alice.put(f"/v1/subscriptions/{name}", json={"query": TWICE}))
    before = figures(operator)
    for time in (10, 11):
        ok(alice.post(f"/v1/documents/zebra?time={time}000000", content="<a>stripe</a>"))
    assert alice.post("/v1/documents/zebra", content="<a>").status_code == 422
    assert alice.get("/v1/subscriptions/zebra-none").status_code == 404
    wanted = {
        ("xscl_pushed_documents_total", ""): before["xscl_pushed_documents_total", ""] + 2,
        **{("xscl_matches", ""): 2, ("xscl_waiting", ""): 0},
        ("xscl_state_witnesses", "up to 1 min"): 2,
    }

    def settled() -> Figures | None:
        """Return the figures when those of the status file, written now and then, are right."""
        now = figures(operator)
        is_busy = now.get(("xscl_documents_per_second", "1m"), 0) > 0
        return now if is_busy and wanted.items() <= now.items() else None

    after = eventually(settled)

    def gained(name: str, labels: str = "") -> float:
        return after[name, labels] - before.get((name, labels), 0)

    answers = {
        "POST,/v1/documents/{stream},202": 2,
        "POST,/v1/documents/{stream},422": 1,
        "GET,/v1/subscriptions/{name},404": 1,
    }
    assert {name: gained("xscl_requests_total", name) for name in answers} == answers
    assert gained("xscl_request_seconds_count", "/v1/documents/{stream}") == 3
    assert gained("xscl_pushed_matches_total") == 2
    pushes = gained("xscl_pushes_total")
    assert pushes >= 1
    for stage in ("accept", "join", "store", "commit", "wait"):
        assert gained("xscl_push_stage_seconds_count", stage) >= pushes
    assert gained("xscl_result_rows_total", "smallbatch") == 1
    now = {"subscriptions": 2, "joins": 1, "sharing": 2}
    assert {name: after[f"xscl_{name}", ""] for name in now} == now
    assert after["xscl_result_rows_total", "duckdb"] == after["xscl_dead_letters", "dead"] == 0


def test_w7_figures_are_the_operators(alice: httpx.Client, running: Running) -> None:
    assert code(alice.get("/v1/metrics")) == (403, "operator_only")
    with running.client("xscl_00000000_wrong") as nobody:
        assert nobody.get("/v1/metrics").status_code == 401


def test_w8_no_name_of_a_user_is_in_the_figures(
    operator: httpx.Client, alice: httpx.Client
) -> None:
    """For any text of alice in addresses, queries, names and methods."""
    alice.put("/v1/streams/zebra", json={})
    alice.put("/v1/subscriptions/zebra-1", json={"query": TWICE})
    alice.get("/v1/zebra/zebra")
    alice.request("PROPFIND", "/v1/zebra")
    alice.post("/v1/sql", json={"query": "SELECT * FROM zebra"})
    alice.post("/v1/documents/zebra?id=zebra", content="<zebra>")
    text = operator.get("/v1/metrics").text
    assert not re.search(r"zebra|alice|_1\.", text, re.IGNORECASE)
    assert 'route="(none)"' in text
    assert 'method="other"' in text


def test_a_step_of_the_wall_clock_is_reported_with_the_way_back(place: DataDirectory) -> None:
    """Times of senders are bounded by the clock of arrivals, which does not follow."""
    ahead, data = 0, ("--data", str(place.path))
    clock = ArrivalClock(lambda: ticks() + ahead)
    with serving(place, clock=clock) as running, running.client() as operator:

        def shown() -> str:
            return operator.get("/status", headers={"Accept": "text/html"}).text

        status = operator.get("/v1/status").json()["service"]
        assert (status["wall_clock"], status["wall_clock_ahead"]) == ("ok", 0)
        ahead = 30 * DAY
        health = ok(operator.get("/v1/health"))
        assert health["clock"] == "stepped"
        assert health["clock_ahead"] == pytest.approx(30 * 86_400, abs=1)
        eventually(lambda: "Wall clock" in shown())
        assert "restart the service if it is right now" in shown()
        gauge = r"^xscl_wall_clock_ahead_seconds 2\.59\d+e\+06$"
        assert re.search(gauge, operator.get("/v1/metrics").text, re.MULTILINE)
        checked = called("doctor", "--port", "0", *data)
        assert checked.exit_code == 1
        assert "bad   clock     the wall clock is +2592000 s against" in checked.stdout
        assert "hint: set it right, or restart the service if it is right now" in checked.stdout
        assert "wall clock     +2592000 s against" in called("status", *data).stdout
        sent = {"time": str(ticks() + 29 * DAY)}
        refused = operator.post("/v1/documents/S", params=sent, content=b"<a/>")
        assert code(refused) == (422, "future")
        ahead = 0
        eventually(lambda: "Wall clock" not in shown())
        assert "bad   clock" not in called("doctor", "--port", "0", *data).stdout


# -- The ring buffer of a service's figures ------------------------------------------------


@pytest.fixture
def clock() -> Clock:
    """A clock in ticks."""
    return Clock(100_000_000)


def series_of(clock: Clock) -> StatusSeries:
    return StatusSeries(lambda: clock() / 1e6, clock)


def test_a_sample_has_rates_of_its_interval_and_the_largest_of_what_waited(clock: Clock) -> None:
    series = series_of(clock)
    series.observe(1_000, 10, 0, 0.0)  # before the first interval
    clock.now += round(STEP / 2 * 1e6)
    series.observe(1_000, 10, 7, 4.5)
    for number in range(100):
        series.note_latency(number / 10)
    assert series.since(0) == []
    clock.now += round(STEP / 2 * 1e6)
    series.observe(1_030, 25, 2, 0.5)
    (one,) = series.since(0)
    assert ticks_of(one.at) == clock()
    assert (one.documents, one.matches) == (30 / STEP, 15 / STEP)
    assert (one.waiting, one.lag) == (7, 4.5)
    assert one.memory > 1_000_000
    assert (one.p50, one.p95) == (5.0, 9.5)
    clock.now += round(STEP * 1e6)
    series.observe(1_030, 25, 0, 0.0)
    first, second = series.since(0)
    assert (first, second.documents, second.waiting, second.p95) == (one, 0.0, 0, 0.0)
    assert series.since(ticks_of(one.at)) == [second]


def test_the_ring_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "KEPT", 3)
    series = series_of(clock)
    for number in range(10):
        series.observe(number, 0, 0, 0.0)
        clock.now += round(STEP * 1e6)
    assert len(series.since(0)) == 3


# -- The log -------------------------------------------------------------------------------


def record(message: str, *args: object, **extra: Any) -> logging.LogRecord:
    made = logging.getLogger("xscl.test").makeRecord(
        *("xscl.test", logging.WARNING, "f", 1, message, args, None), extra=extra
    )
    made.created = 1_700_000_000.25
    return made


def test_an_event_as_json() -> None:
    fields = {"documents": 3, "ok": True, "who": "é"}
    line = OneLine(LogFormat.JSON).format(record("%s is late", "d1", **fields))
    assert json.loads(line) == {
        **{"time": "2023-11-14T22:13:20.250Z", "level": "WARNING", "logger": "xscl.test"},
        **{"message": "d1 is late", **fields},
    }


def test_an_event_as_text() -> None:
    line = OneLine(LogFormat.TEXT).format(record("late", documents=3, title='a "b"'))
    assert line == '2023-11-14T22:13:20.250Z WARNING xscl.test late documents=3 title="a \\"b\\""'


@pytest.mark.parametrize("form", list(LogFormat))
@pytest.mark.parametrize(
    "text",
    ["a\nb", "a\r\nWARNING forged", "\x1b]0;title\x07", "\u2028", "\u202e", "\0", "x" * 10**5],
)
def test_w9_an_event_is_one_line_that_steers_nothing(form: LogFormat, text: str) -> None:
    line = OneLine(form).format(record("%s", text, field=text))
    assert line.isprintable()
    assert len(line) < 30_000


SECRETS = {
    "token xscl_0123abcd_s3cr3t-Part_x": "s3cr3t",
    "GET /f/Abcdefghijklmnop_12345.atom": "Abcdefghijklmnop",
    "fetching https://user:hunter2@example.org/feed": "hunter2",
    "smtp+starttls://me:hunter2@mail.example:587": "hunter2",
    "https://example.org/feed?api_key=hunter2&x=1": "hunter2",
    "Authorization: Bearer hunter2hunter2": "hunter2",
    "authorization: basic aHVudGVyMjpodW50ZXIy": "aHVudGVy",
    "signed with whsec_aHVudGVyMg==": "aHVudGVy",
}


def test_w19_no_secret_is_in_the_log() -> None:
    for text, secret in SECRETS.items():
        assert secret not in clean(text)
        assert "(secret)" in clean(text)
        error = OneLine(LogFormat.JSON).format(record("it failed", detail=text))
        assert secret not in error


def test_what_is_no_secret_stays() -> None:
    text = "https://example.org/f/news?page=2 at 12:30@home by xscl_tools"
    assert clean(text) == text


def test_an_error_is_in_its_line() -> None:
    stream = io.StringIO()
    with logging_to(stream, LogFormat.JSON):
        logging.getLogger("xscl.test").error("it failed", exc_info=ValueError("bad\nvalue"))
    (event,) = json_rows(stream.getvalue())
    assert "ValueError: bad" in event["error"]


def test_each_batch_is_an_event(tmp_path: Path) -> None:
    stream, before = io.StringIO(), logging.getLogger("xscl").handlers
    with logging_to(stream, LogFormat.JSON), Engine() as engine, Spool(tmp_path) as spool:
        spool.append([Document("S", "d1", 1, b"<a/>")], 0)
        Consumer(spool, engine.ingest).run_once()
    events = json_rows(stream.getvalue())
    (pushed,) = [event for event in events if event["message"] == "a batch was pushed"]
    assert (pushed["documents"], pushed["segment"]) == (1, 1)
    assert re.fullmatch(r"[\d.]+", str(pushed["seconds"]))
    assert logging.getLogger("xscl").handlers == before
