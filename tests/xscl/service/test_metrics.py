"""The operator's view of the service: Prometheus metrics, and status."""

from __future__ import annotations

import re

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.xscl.service.conftest import Running, eventually

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
    assert alice.put("/v1/streams/zebra", json={}).status_code == 201
    assert alice.put("/v1/subscriptions/zebras", json={"query": TWICE}).status_code == 201
    assert alice.put("/v1/subscriptions/others", json={"query": TWICE}).status_code == 201
    before = figures(operator)
    for time in (10, 11):
        sent = alice.post(f"/v1/documents/zebra?time={time}000000", content="<a>stripe</a>")
        assert sent.status_code == 202
    assert alice.post("/v1/documents/zebra", content="<a>").status_code == 422
    assert alice.get("/v1/subscriptions/zebra-none").status_code == 404
    moved = ("xscl_pushed_documents_total", "")
    eventually(lambda: figures(operator)[moved] == before[moved] + 2)
    eventually(lambda: figures(operator)["xscl_matches", ""] == 2)
    after = figures(operator)

    def gained(name: str, labels: str = "") -> float:
        return after[name, labels] - before.get((name, labels), 0)

    assert gained("xscl_pushed_matches_total") == 2
    assert gained("xscl_requests_total", "POST,/v1/documents/{stream},202") == 2
    assert gained("xscl_requests_total", "POST,/v1/documents/{stream},422") == 1
    assert gained("xscl_requests_total", "GET,/v1/subscriptions/{name},404") == 1
    assert gained("xscl_request_seconds_count", "/v1/documents/{stream}") == 3
    pushes = gained("xscl_pushes_total")
    assert pushes >= 1
    for stage in ("accept", "join", "store", "commit"):
        assert gained("xscl_push_stage_seconds_count", stage) >= pushes
    assert (after["xscl_subscriptions", ""], after["xscl_joins", ""]) == (2, 1)
    assert after["xscl_sharing", ""] == 2
    assert after["xscl_waiting", ""] == 0
    assert gained("xscl_result_rows_total", "smallbatch") == 1
    assert after["xscl_result_rows_total", "duckdb"] == 0
    assert gained("xscl_push_stage_seconds_count", "wait") >= pushes
    assert after["xscl_state_witnesses", "up to 1 min"] == 2
    assert after["xscl_documents_per_second", "1m"] > 0
    assert after["xscl_dead_letters", "dead"] == 0


def test_w7_figures_are_the_operators(alice: httpx.Client, running: Running) -> None:
    refused = alice.get("/v1/metrics")
    assert (refused.status_code, refused.json()["code"]) == (403, "operator_only")
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
