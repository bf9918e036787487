"""A service whose documents are evaluated in cells, here in its own process: as one engine's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import xscl
from feeds.spool import Spool
from tests.waiting import eventually
from tests.xscl.commandline import called
from tests.xscl.service.conftest import Running, serving, token_of
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.shared_directory import CellsFailed
from xscl.engine.state import Role
from xscl.errors import StoreError
from xscl.server import serve
from xscl.server.serve import ClusterSettings, ServeSettings, Service
from xscl.store.data_directory import DataDirectory

CELLS = 3
QUERIES = {
    "pairs": "S//a->x FOLLOWED BY{x=y, 1 h} S//a->y",
    "publisher": "SELECT <p>{x}</p> FROM S//a->x FOLLOWED BY{x=y, 1 h} S//a->y PUBLISH P",
    "reader": "P//p->x",
    "next": "S//a->x NEXT{x=y} S//a->y",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    return DataDirectory(tmp_path_factory.mktemp("cluster") / "data")


@pytest.fixture(scope="module")
def running(home: DataDirectory) -> Iterator[Running]:
    with serving(home, cells=CELLS) as found:
        yield found


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[httpx.Client]:
    with running.client() as made:
        for name, query in QUERIES.items():
            put(made, name, query)
        push(made, 1, 2, 3)
        eventually(lambda: bool(matches(made, "pairs")))  # d3 is evaluated
        yield made


def put(client: httpx.Client, name: str, query: str) -> None:
    answer = client.put(f"/v1/subscriptions/{name}", json={"query": query, "history": False})
    assert answer.is_success, answer.text


def push(client: httpx.Client, *numbers: int) -> None:
    for number in numbers:
        asked = {"id": f"d{number}", "time": f"2026-03-01T12:00:{number:02}Z"}
        content = f"<a>{number % 2}</a>"
        answer = client.post("/v1/documents/S", params=asked, content=content)
        assert answer.is_success, answer.text


def push_on(client: httpx.Client, stream: str, *numbers: int) -> None:
    for number in numbers:
        asked = {"id": f"m{number}", "time": f"2026-03-01T12:00:{number:02}Z"}
        content = f"<a>{number % 4}</a>"
        answer = client.post(f"/v1/documents/{stream}", params=asked, content=content)
        assert answer.is_success, answer.text


def matches(client: httpx.Client, name: str) -> list[Any]:
    """Return the matches of a subscription, the newest first."""
    answer = client.get(f"/v1/subscriptions/{name}/matches")
    assert answer.is_success, answer.text
    return list(answer.json()["matches"])


def expected(name: str, *numbers: int) -> list[str]:
    """Return the ids of the matches of one engine with the same registrations and documents."""
    with xscl.Engine() as engine:
        for one, query in QUERIES.items():
            engine.subscribe(one, query)
        for number in numbers:
            time = 1_772_366_400_000_000 + number * 1_000_000
            engine.push(xscl.Document("S", f"d{number}", time, f"<a>{number % 2}</a>".encode()))
        return [one.id for one in engine.matches(name)]


@pytest.mark.parametrize("name", QUERIES)
def test_matches_are_those_of_one_engine(client: httpx.Client, name: str) -> None:
    ids = expected(name, 1, 2, 3)
    eventually(lambda: len(matches(client, name)) >= len(ids))
    assert {one["id"] for one in matches(client, name)} == set(ids)


def test_explanations_and_trials_read_the_documents(client: httpx.Client) -> None:
    eventually(lambda: bool(matches(client, "pairs")))
    why = client.post("/v1/why", json={"subscription": "pairs", "documents": ["d1", "d3"]})
    assert why.is_success, why.text
    tried = client.post("/v1/try", json={"query": QUERIES["pairs"]})
    assert [one["documents"] for one in tried.json()["matches"]] == [["d1", "d3"]]


def test_status_page_and_metrics_show_the_cells(
    running: Running, client: httpx.Client, home: DataDirectory
) -> None:
    def cells() -> list[Any]:
        return (home.read_status() or {}).get("cells") or []

    eventually(lambda: sum(one["subscriptions"] for one in cells()) == len(QUERIES))
    assert [one["cell"] for one in cells()] == list(range(CELLS))
    eventually(lambda: "process" in client.get("/status").text)
    assert 'id="cells-title"' in client.get("/status").text
    assert 'xscl_cell_subscriptions{cell="2"}' in client.get("/v1/metrics").text
    shown = called("cluster", "status", "--data", str(home.path))
    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.splitlines()[0].startswith("cell  subscriptions  runs on")


def test_status_names_the_hottest_cell(
    client: httpx.Client, home: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shares() -> list[float]:
        return [one["share"] for one in (home.read_status() or {}).get("cells") or []]

    eventually(lambda: sum(shares()) == pytest.approx(1, abs=0.01))
    hottest = shares().index(max(shares()))
    monkeypatch.setattr("xscl.cli.cluster.HOT", 0.5)
    said = called("cluster", "status", "--data", str(home.path)).stderr
    assert f"'xscl cluster split {hottest}' halves it" in said
    monkeypatch.setattr("xscl.cli.cluster.HOT", CELLS + 1)
    assert "halves it" not in called("cluster", "status", "--data", str(home.path)).stderr


def test_witnesses_in_sql_are_those_of_all_cells(running: Running, client: httpx.Client) -> None:
    """A user sees those of the own subscriptions, on streams that the user may read."""

    def rows(asking: httpx.Client, query: str) -> list[Any]:
        answer = asking.post("/v1/sql", json={"query": query})
        assert answer.is_success, answer.text
        return [row[0] for row in answer.json()["rows"]]

    kept = "SELECT DISTINCT docid FROM R_bin ORDER BY docid"
    eventually(lambda: {"d1", "d2", "d3"} <= set(rows(client, kept)))
    assert rows(client, "SELECT docid FROM R_docTS WHERE docid IN ('d1', 'd2', 'd3')")
    assert len(rows(client, "SELECT DISTINCT strVal FROM R_doc")) >= 2
    with running.client(token_of(client, "ann")) as ann:
        assert rows(ann, kept) == rows(ann, "SELECT docid FROM R_docTS") == []
        assert ann.put("/v1/streams/mine", json={}).is_success
        put(ann, "own", "mine//a->x FOLLOWED BY{x=y, 1 h} S//a->y")
        asked = {"id": "m1", "time": "2026-03-01T12:00:04Z"}
        answer = ann.post("/v1/documents/mine", params=asked, content="<a>1</a>")
        assert answer.is_success, answer.text
        eventually(lambda: "m1" in rows(ann, kept))
        assert rows(ann, "SELECT DISTINCT var1 FROM R_bin ORDER BY var1") == ["S//a", "mine//a"]
    eventually(lambda: "_1.m1" in rows(client, kept))


def test_changes_are_made_in_the_cells(client: httpx.Client) -> None:
    """It has another name, a pause without matches, and a name that is used again."""
    put(client, "changed", "S//a->x")
    put(client, "all", "S//a->x")
    push(client, 10)
    eventually(lambda: len(matches(client, "changed")) == 1)
    assert client.patch("/v1/subscriptions/changed", json={"name": "renamed"}).is_success
    assert client.patch("/v1/subscriptions/renamed", json={"paused": True}).is_success
    push(client, 11)
    eventually(lambda: len(matches(client, "all")) == 2)
    assert client.patch("/v1/subscriptions/renamed", json={"paused": False}).is_success
    push(client, 12)
    eventually(lambda: len(matches(client, "renamed")) == 2)
    assert [one["documents"] for one in matches(client, "renamed")] == [["d12"], ["d10"]]
    assert client.delete("/v1/subscriptions/renamed").is_success
    put(client, "renamed", "S//a->y")
    push(client, 13)
    eventually(lambda: len(matches(client, "renamed")) > 2)
    assert matches(client, "renamed")[0]["documents"] == ["d13"]


def test_a_subscription_begins_in_the_past(client: httpx.Client) -> None:
    made = client.put("/v1/subscriptions/past", json={"query": QUERIES["pairs"], "since": "7 d"})
    assert made.is_success, made.text
    eventually(lambda: ["d1", "d3"] in [one["documents"] for one in matches(client, "past")])
    push(client, 20, 22)  # equal, and nothing between
    made = client.put("/v1/subscriptions/lately", json={"query": QUERIES["next"]})
    assert made.is_success, made.text
    eventually(lambda: len(matches(client, "lately")) > 0)


def test_the_past_of_a_published_stream_is_read(client: httpx.Client) -> None:
    made = client.put("/v1/subscriptions/again", json={"query": "P//p->x", "since": "7 d"})
    assert made.is_success, made.text
    eventually(lambda: len(matches(client, "again")) == len(matches(client, "publisher")) > 0)


def test_cells_are_split_merged_and_kept_by_commands(
    client: httpx.Client, home: DataDirectory
) -> None:
    def run(*given: str) -> Any:
        return called("cluster", *given, "--data", str(home.path))

    def subscriptions() -> dict[int, int]:
        shown = run("status", "--json")
        assert shown.exit_code == 0, shown.stderr
        rows = map(json.loads, shown.stdout.splitlines())
        return {one["cell"]: one["subscriptions"] for one in rows}

    many = [f"many {number}" for number in range(8)]
    for number, name in enumerate(many):
        put(client, name, f'M//a[.="{number % 4}"]->x FOLLOWED BY{{x=y, {number + 1} h}} M//a->y')
    push_on(client, "M", 30, 34)
    eventually(lambda: sum(subscriptions().values()) >= len(QUERIES) + len(many))
    fullest = max(subscriptions().items(), key=lambda one: one[1])[0]
    done = run("split", str(fullest))
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"cell {fullest} is split: half of it is now cell {CELLS}\n"
    eventually(lambda: subscriptions().get(CELLS, 0) > 0)
    push_on(client, "M", 38)
    eventually(lambda: len(matches(client, "many 2")) == 3)
    for given, said in (
        (("split", "99"), "there is no cell 99"),
        (("merge", "0", "0"), "is merged into another one"),
        (("move", str(CELLS)), f"no other executor took the cells {CELLS}"),
        (("drain", "nowhere"), "no cell is on 'nowhere'"),
    ):
        refused = run(*given)
        assert refused.exit_code == 1, refused.stdout
        assert said in refused.stderr
    assert client.post("/v1/cluster/split", json={"cell": 99}).status_code == 404
    assert client.post("/v1/cluster/drain", json={"node": "nowhere"}).status_code == 409
    done = run("merge", str(fullest), str(CELLS))
    assert done.exit_code == 0, done.stderr
    eventually(lambda: CELLS not in subscriptions())
    push_on(client, "M", 42)
    eventually(lambda: len(matches(client, "many 2")) == 6)


def test_a_user_does_not_change_the_cells(running: Running, client: httpx.Client) -> None:
    with running.client(token_of(client, "bob")) as bob:
        refused = bob.post("/v1/cluster/split", json={"cell": 0})
        assert refused.status_code == 403


def test_a_service_without_cells_says_so(tmp_path: Path) -> None:
    with serving(DataDirectory(tmp_path / "data"), cells=0) as found, found.client() as client:
        refused = client.post("/v1/cluster/move", json={"cell": 0})
        assert refused.status_code == 409
        assert refused.json()["code"] == "no_cluster"
    alone = called("cluster", "move", "0", "--data", str(tmp_path / "data"))
    assert alone.exit_code == 2
    assert "no service runs" in alone.stderr


def test_a_restart_continues(tmp_path: Path) -> None:
    home = DataDirectory(tmp_path / "data")
    with serving(home, cells=CELLS) as found, found.client() as client:
        put(client, "pairs", QUERIES["pairs"])
        push(client, 1)
        eventually(lambda: client.get("/v1/status").json()["service"]["documents"] == 1)
    with serving(home, cells=CELLS) as found, found.client() as client:
        push(client, 3)
        eventually(lambda: bool(matches(client, "pairs")))
        assert [one["documents"] for one in matches(client, "pairs")] == [["d1", "d3"]]


def test_a_service_with_a_grid_continues_with_the_cells_that_it_had(tmp_path: Path) -> None:
    home = DataDirectory(tmp_path / "data")
    with serving(home, cells=1, grid=2) as found, found.client() as client:
        put(client, "pairs", QUERIES["pairs"])
        push(client, 1)
        eventually(lambda: client.get("/v1/status").json()["service"]["documents"] == 1)
    with serving(home, cells=1) as found, found.client() as client:
        push(client, 3)
        eventually(lambda: bool(matches(client, "pairs")))
        assert [one["documents"] for one in matches(client, "pairs")] == [["d1", "d3"]]

        def counts() -> list[int]:
            shown = (home.read_status() or {}).get("cells") or []
            return [one["subscriptions"] for one in shown]

        eventually(lambda: counts() == [0, 1, 1])


# -- What is refused -------------------------------------------------------------------------


def test_a_store_keeps_its_role(tmp_path: Path) -> None:
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), xscl.Engine(home.database) as engine:
        engine.push(xscl.Document("S", "d", 1, b"<a/>"))
    with pytest.raises(StoreError, match="state of a single engine"), serving(home, cells=2):
        pass
    other = DataDirectory(tmp_path / "other")
    with serving(other, cells=2):
        pass
    with pytest.raises(StoreError, match="belongs to the driver of a cluster"):
        Service(other, ServeSettings(spark=False), lambda matches: None).run()
    with xscl.Engine(other.database) as engine:
        assert engine.host.transactions.settings.role is Role.DRIVER
    refused = called("push", "--data", str(other.path), "--stream", "S", "-", given="<a/>")
    assert refused.exit_code == 1
    assert "xscl serve --shared DIR" in refused.stderr


def test_cells_need_executors(tmp_path: Path) -> None:
    for options, said in (
        (("--shared", "s", "--master", "local[2]"), "has no executors for cells"),
        (("--cells", "3", "--no-spark"), "--cells is for a cluster"),
        (("--grid", "3", "--no-spark"), "--grid is for a cluster"),
        (("--shared", "s", "--groups", "3", "--no-spark"), "--groups is for a grid"),
    ):
        refused = called("serve", *options, "--data", str(tmp_path / "data"))
        assert refused.exit_code == 2
        assert said in refused.stderr


def test_a_batch_is_repeated_until_the_cells_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, failures = LocalCells.run, [1, 2]

    def fail_twice(cells: LocalCells, shared: Path, tasks: Any) -> Any:
        if failures:
            failures.pop()
            raise CellsFailed("a task of a cell failed")
        return run(cells, shared, tasks)

    monkeypatch.setattr(LocalCells, "run", fail_twice)
    monkeypatch.setattr(serve, "RETRY", 0.05)
    home = DataDirectory(tmp_path / "data")
    with serving(home, cells=2) as found, found.client() as client:
        put(client, "all", "S//a->x")
        push(client, 1)
        eventually(lambda: bool(matches(client, "all")))
    assert not failures


def test_cells_that_always_fail_end_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LocalCells.run

    def fail(cells: LocalCells, shared: Path, tasks: Any) -> Any:
        if shared != tmp_path / "shared":  # the service of the other tests goes on
            return run(cells, shared, tasks)
        raise CellsFailed("a task of a cell failed")

    monkeypatch.setattr(LocalCells, "run", fail)
    monkeypatch.setattr(serve, "RETRY", 0.001)
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), xscl.Engine(home.database), Spool(home.spool) as spool:
        spool.append([xscl.Document("S", "d", 1, b"<a/>")], 1)
    cluster = ClusterSettings(tmp_path / "shared", 2)
    service = Service(home, ServeSettings(spark=False, cluster=cluster), lambda matches: None)
    with pytest.raises(CellsFailed):
        service.run()
