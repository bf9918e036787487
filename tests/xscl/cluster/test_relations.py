"""SQL over witnesses on a cluster: the union of the cells is what a single engine has.

An engine evicts witnesses when this pays, and each registration reads documents from its own time
on, so a single engine may have witnesses that nothing can join.  These are no part of the union.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from templates.state.join_state import Expiry
from tests.examples import examples, until
from tests.oracle.queries import Case
from tests.strategies import joins
from tests.strategies import language as drawn
from tests.xscl.cluster.histories import by_single_engine, cluster, play
from tests.xscl.cluster.test_cells_properties import CELLS, DEALS, Deal
from tests.xscl.engine.player import CUTS
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.shared_directory import CellsFailed, ClusterError
from xscl.engine.state import Role
from xscl.errors import SqlError
from xscl.store.consumed_offsets import DIRECT, BatchKey

Bag = Counter[tuple[object, ...]]

KEPT = ("R_bin", "R_doc", "R_docTS")
LAST = ("R_binW", "R_docW", "R_docTSW", "R_vj", "R_L", "R_R")
PAIRS = "S//a->x FOLLOWED BY{x=y, 1 h} S//a->y"


def rows(engine: xscl.Engine, relation: str) -> Bag:
    """Return the rows of a relation, each as often as it is there."""
    found = engine.sql(f"SELECT * FROM {relation}")
    columns = sorted(found.column_names)
    return Counter(zip(*(found[name].to_pylist() for name in columns), strict=True))


def out(engine: xscl.Engine) -> Bag:
    """Return R_out of all templates: subscription, documents, and the nodes by variables."""
    found = Bag()
    named = engine.sql("SELECT qid, subscription FROM R_sub ORDER BY subscription")
    names = dict(zip(named["qid"].to_pylist(), named["subscription"].to_pylist(), strict=True))
    templates = engine.sql(
        "SELECT view_name[7:]::INTEGER AS n FROM duckdb_views() WHERE view_name ~ '^R_out_[0-9]+$'"
    )
    for number in templates["n"].to_pylist():
        width = sum(
            name.startswith("var") for name in engine.sql(f"FROM R_T_{number}").column_names
        )
        ends = ", ".join(f"[var{at}, node{at}::VARCHAR]" for at in range(1, width + 1))
        asked = engine.sql(
            f"SELECT qid, docid1, docid2, list_sort([{ends}]) AS nodes, o.wl"
            f" FROM R_out_{number} o JOIN R_T_{number} USING (qid)"
        )
        for qid, *values, nodes, window in zip(*asked.to_pydict().values(), strict=True):
            found[(names.get(qid), *values, str(nodes), window)] += 1
    return found


def shown(engine: xscl.Engine, relations: Sequence[str]) -> dict[str, Bag]:
    return {name: rows(engine, name) for name in relations}


def everything(engine: xscl.Engine) -> dict[str, Bag]:
    return {**shown(engine, (*KEPT, *LAST)), "R_out": out(engine)}


@pytest.mark.hypothesis
def test_witnesses_are_those_of_a_single_engine() -> None:
    """A single engine may have more: what is too old, or came before all that would read it."""
    seen = Counter[str]()

    @examples(10)
    @given(st.one_of(joins.histories(), drawn.mixes(), drawn.published()), CUTS, DEALS)
    def property_holds(case: Case, cuts: list[bool], deal: list[int]) -> None:
        single: list[dict[str, Bag]] = []
        by_single_engine(case, cuts, lambda engine: single.append(shown(engine, KEPT)))
        united: list[dict[str, Bag]] = []
        with cluster(CELLS, Deal(deal)) as driver:
            play(driver, case, cuts, lambda engine: united.append(shown(engine, KEPT)))
        for expected, found in zip(single, united, strict=True):
            for name in KEPT:
                assert found[name] <= expected[name], name
                seen[name] += found[name].total()

    property_holds()
    until(lambda: min(map(seen.__getitem__, KEPT)) > 0, property_holds)


@pytest.mark.hypothesis
def test_relations_are_equal_if_all_is_registered_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Expiry, "due", lambda *_: True)  # evict at each push
    seen = Counter[str]()

    @examples(10)
    @given(joins.cases(), CUTS, DEALS)
    def property_holds(case: Case, cuts: list[bool], deal: list[int]) -> None:
        single: list[dict[str, Bag]] = []
        by_single_engine(case, cuts, lambda engine: single.append(everything(engine)))
        united: list[dict[str, Bag]] = []
        with cluster(CELLS, Deal(deal)) as driver:
            play(driver, case, cuts, lambda engine: united.append(everything(engine)))
        for expected, found in zip(single, united, strict=True):
            for name in expected:
                assert found[name] == expected[name], name
                seen[name] += found[name].total()

    property_holds()
    until(lambda: all(seen[name] for name in (*KEPT, *LAST, "R_out")), property_holds)


# -- One commit ------------------------------------------------------------------------------


def consume(driver: ClusterDriver, number: int) -> None:
    document = xscl.Document("S", f"d{number}", number, b"<a>hi</a>")
    driver.consume([document], BatchKey(DIRECT, number, number))


def kept(driver: ClusterDriver) -> list[str]:
    found = driver.engine.sql("SELECT docid FROM R_bin ORDER BY docid")
    return [str(name) for name in found["docid"].to_pylist()]


def test_no_commit_comes_while_the_relations_are_read() -> None:
    with cluster(2) as driver:
        driver.engine.subscribe("pairs", PAIRS)
        consume(driver, 1)
        with driver.relations() as found:
            other = threading.Thread(target=consume, args=(driver, 2))
            other.start()
            other.join(0.2)
            assert other.is_alive()
            assert found.tables["binding"].num_rows == 1
        other.join()
        assert kept(driver) == ["d1", "d2"]


def test_cells_that_were_lost_have_the_same_witnesses() -> None:
    """Those of the last push are made again, too: it is repeated from the log."""
    with cluster(2) as driver:
        driver.engine.subscribe("pairs", PAIRS)
        consume(driver, 1)
        consume(driver, 2)
        assert rows(driver.engine, "R_vj").total() == 1
        cells = driver._runner
        assert isinstance(cells, LocalCells)
        cells.close()
        driver._relations = None
        assert kept(driver) == ["d1", "d2"]
        assert rows(driver.engine, "R_vj").total() == 1
        assert not list(driver._shared.path.glob("relations/*"))


def test_a_removed_subscription_has_no_witnesses() -> None:
    with cluster(2) as driver:
        driver.engine.subscribe("pairs", PAIRS)
        consume(driver, 1)
        assert kept(driver) == ["d1"]
        driver.engine.unsubscribe("pairs")
        assert kept(driver) == []
        consume(driver, 2)
        assert kept(driver) == []


def test_relations_out_of_reach_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not shown as empty."""
    with xscl.Engine(role=Role.DRIVER) as engine, pytest.raises(SqlError, match="in the cells"):
        engine.sql("SELECT * FROM r_bin")

    def fail(cells: LocalCells, shared: Path, tasks: object) -> object:
        raise CellsFailed("a task of a cell failed")

    with cluster(2) as driver:
        driver.engine.subscribe("pairs", PAIRS)
        with monkeypatch.context() as patched:
            patched.setattr(LocalCells, "run", fail)
            with pytest.raises(CellsFailed):
                consume(driver, 1)
        with pytest.raises(ClusterError, match="in doubt"):
            kept(driver)
        assert driver.engine.sql("SELECT id FROM documents").num_rows == 1
        driver.commit()
        assert kept(driver) == ["d1"]
