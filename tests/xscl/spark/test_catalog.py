"""Catalogs: what executors can evaluate, versions of the plan, and replicas of it in workers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from feeds.documents import Document
from templates.registry import UNDESIGNATED
from tests.waiting import beside
from tests.xscl.spark.bucket_runs import BucketRun
from xscl.errors import QueryError, StoreError
from xscl.spark.catalog import Catalog
from xscl.spark.plan_files import CLAIMS, PLAN, PlanFiles
from xscl.spark.plan_replica import PlanReplica, replica_of

DIVIDED = (
    "S//a->x FOLLOWED BY{x=y, 9} S//a->y",
    "S//a->x JOIN{x=y, 4} S//b->y",
    "S//e[./a->x][./b->u] FOLLOWED BY{x=y AND u=v, 9} S//e[./a->y][./b->v]",
    "S//e[./a->x][.//a->u] JOIN{x=y AND u=v, 6} S//e[./a->y][.//a->v]",
    "S//e[./a->x][./b->u] JOIN{x=y AND u != v, 6} S//e[./a->y][./b->v]",
    "SELECT DISTINCT <m>{x}</m> FROM S//a[.='u']->x JOIN{x=y, 9} S//e/@k->y",
    "S//e[./a->x][./b->u] NOT FOLLOWED BY{x=y AND v=u, 3} S//e[./a->y][./b->v]",
    "S//a->x JOIN{x=y, -1 TO 3} S//b->y ELSE",
)
WHOLE_QUERIES = {
    "S//a->x": "filter",
    "S//e[./a->x][./b->u] FOLLOWED BY{x=y AND contains(u, v), 9} S//e[./a->y][./b->v]": "no com",
    "S//e[./a->x] JOIN{contains(x, y), 6} S//e[./b->y]": "contains()",
    "S//a->x NEXT{x=y} S//a->y": "NEXT",
    "S//a->x FOLLOWED BY{x=y OR x=z, 9} S//e[./a->y][./b->z]": "more than one",
    "(S//a->x FOLLOWED BY{x=y, 5} S//b->y) FOLLOWED BY{y=z, 5} S//a->z": "chain",
    "S//a->x NOT FOLLOWED BY{x != y, 3} S//b->y": "NOT by more than equalities",
    "S//a->x FOLLOWED BY{x != y, 3} S//b->y ELSE": "ELSE",
    "SELECT DISTINCT <m>{x}</m> FROM S//a->x NOT FOLLOWED BY{x=y, 3} S//b->y": "DISTINCT",
    "S//a->x FOLLOWED BY{lower-case(x)=lower-case(y), 5} S//b->y": "",
    "SELECT <e><a>{x}</a></e> FROM S//a->x FOLLOWED BY{x=y, 5} R//a->y PUBLISH P": "PUBLISH",
    "S//a->x FOLLOWED BY{x=y} S//a->y": "INF",
    "S//e[./a->x] JOIN{x != y, 6} S//e[./a->y]": "no equality",
}


def document(number: int, *values: str) -> Document:
    leaves = "".join(f"<{name}>{text}</{name}>" for name, text in zip("abk", values, strict=False))
    return Document("S", f"d{number}", number, f"<e>{leaves}</e>".encode())


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with Catalog(tmp_path) as opened:
        yield opened


def known(replica: PlanReplica) -> object:
    """The content of a replica, in a form that can be compared."""
    rows = replica.registry.rows()
    return (
        rows,
        {qid: replica.registry.lead(qid) for qid in rows},
        sorted(replica.automaton),
        {qid: sorted(map(repr, of)) for qid, of in replica.subscribers.items() if of},
        replica.edges.tolist(),
    )


def replica_at(files: PlanFiles, version: int) -> PlanReplica:
    """Return a replica that nobody else has."""
    return PlanReplica(files, 0, version)


def test_executors_evaluate_one_join_with_an_equality(catalog: Catalog) -> None:
    catalog.subscribe_many({f"q{place}": query for place, query in enumerate(DIVIDED)})
    assert set(catalog.subscriptions.values()) == set(DIVIDED)


@pytest.mark.parametrize("query", WHOLE_QUERIES)
def test_other_subscriptions_are_refused_with_the_reason(catalog: Catalog, query: str) -> None:
    catalog.subscribe("first", DIVIDED[0])
    before = catalog.files.current()
    with pytest.raises(QueryError, match=r"executors cannot evaluate .* 'one'") as raised:
        catalog.subscribe_many({"good": DIVIDED[1], "one": query})
    assert WHOLE_QUERIES[query] in raised.value.message
    assert raised.value.hint is not None
    assert "xscl.Engine.push" in raised.value.hint
    assert list(catalog.subscriptions) == ["first"], "all or none"
    assert catalog.files.current() == before


def test_a_window_without_end_needs_consent(tmp_path: Path) -> None:
    with Catalog(tmp_path, forever=True) as catalog:
        catalog.subscribe("inf", "S//a->x FOLLOWED BY{x=y} S//a->y")
        assert list(catalog.subscriptions) == ["inf"]


def test_the_rarest_equality_of_a_sample_is_designated_and_stays(tmp_path: Path) -> None:
    query = "S//e[./b->k][./a->t] FOLLOWED BY{k=l AND t=u, 9} S//e[./b->l][./a->u]"
    rare_a = [document(number, f"a{number}", "news") for number in range(8)]
    rare_b = [document(number, "same", f"b{number}") for number in range(8)]

    def designated(sample: list[Document]) -> list[str]:
        with Catalog(tmp_path, sample=sample) as catalog:
            if not catalog.subscriptions:
                catalog.subscribe("rare", query)
            (replica,) = [replica_at(catalog.files, catalog.files.current())]
        ((qid, row),) = replica.registry.rows().items()
        graph = replica.registry.members[row.template].template.graph
        assert replica.registry.lead(qid) != UNDESIGNATED
        ends = graph.value_joins[replica.registry.lead(qid)]
        return [replica.registry.pairs.describe(row.pairs[end]).second for end in ends]

    assert designated(rare_a) == ["S//e/a", "S//e/a"]
    assert designated(rare_b) == ["S//e/a", "S//e/a"], "kept documents are divided by it"


def changed(catalog: Catalog) -> Iterator[int]:
    """Make a dozen changes, several of them removals; yield the version after each."""
    for place, query in enumerate(DIVIDED):
        catalog.subscribe(f"q{place}", query)
        yield catalog.files.current()
        catalog.subscribe_many({f"again{place}": query, f"more{place}": query})
        yield catalog.files.current()
        if place % 2:
            catalog.unsubscribe(f"q{place - 1}", f"more{place}")
            yield catalog.files.current()


def test_a_worker_reads_each_version_once(catalog: Catalog) -> None:
    files = catalog.files
    for version in changed(catalog):
        replica = replica_of(files, 0, version)
        assert known(replica) == known(PlanReplica(files.image(), 0, version))
        assert replica_of(files, 0, version) is replica is replica_of(files, 0, version - 1)
        later = replica_of(files, 1, version)
        assert known(later) != known(replica), "rows are kept longer for late documents"
    assert version > 12


def test_numbers_of_a_writer_that_began_again_mean_other_rows(tmp_path: Path) -> None:
    """The store has released the last number of a row, which the next row gets."""
    with Catalog(tmp_path) as catalog:
        catalog.subscribe("one", DIVIDED[0])
        before = replica_of(catalog.files, 0, catalog.files.current())
        catalog.unsubscribe("one")
    with Catalog(tmp_path) as catalog:
        catalog.subscribe("two", DIVIDED[2])
        alone = replica_at(catalog.files, catalog.files.current())
        assert before.registry.rows().keys() == alone.registry.rows().keys()
        assert known(replica_of(catalog.files, 0, alone.version)) == known(alone) != known(before)


def test_one_version_is_kept(catalog: Catalog) -> None:
    """Micro-batches of an earlier one have the same results, but for what was removed."""
    catalog.subscribe_many({"one": DIVIDED[0], "two": DIVIDED[1]})
    before = catalog.files.current()
    catalog.subscribe("later", DIVIDED[2])
    catalog.unsubscribe("one")
    version = catalog.files.current()
    assert [path.name for path in catalog.files.directory.iterdir()] == ["newest"]
    assert replica_at(catalog.files, before).version == version
    with pytest.raises(StoreError, match=f"at version {version}, and {version + 1} was"):
        replica_at(catalog.files, version + 1)


def test_nothing_of_a_removed_subscription_stays(tmp_path: Path) -> None:
    token = "zqtokenqz"
    with Catalog(tmp_path) as catalog:
        catalog.subscribe("kept", DIVIDED[0])
        query = f"SELECT <{token}>{{x}}</{token}> FROM S//e[./{token}->x][@k='{token}']"
        catalog.subscribe(token, f"{query} FOLLOWED BY{{x=y, 9}} S//a[./{token}->y]")
        assert _with(token, tmp_path)
        catalog.unsubscribe(token)
        assert catalog.subscriptions.keys() == {"kept"}
        assert not [one for one in _with(token, tmp_path) if ".sqlite" not in one]
    assert not _with(token, tmp_path)


def _with(token: str, folder: Path) -> list[str]:
    """Return the files of a folder that have a text."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if token.encode() in path.read_bytes()]


def test_plans_are_read_while_others_are_written(catalog: Catalog) -> None:
    """A reader never fails, nor is it behind."""
    seen: list[int] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            version = catalog.files.current()
            assert replica_of(catalog.files, 0, version).version >= version
            assert replica_of(catalog.files, 1, max(1, version - 2)).version
            seen.append(version)

    with beside(read, until=ended):
        for _ in range(3):
            for _ in changed(catalog):
                pass
            catalog.unsubscribe(*catalog.subscriptions)
    assert len(set(seen)) > 3


def test_another_catalog_at_the_same_place_has_another_plan(tmp_path: Path) -> None:
    with Catalog(tmp_path) as catalog:
        catalog.subscribe("one", DIVIDED[0])
        first = catalog.files
        replica_of(first, 0, first.current())
    with Catalog(tmp_path) as catalog:
        assert catalog.files == first
    for path in tmp_path.glob("catalog.sqlite*"):
        path.unlink()
    with Catalog(tmp_path) as catalog:
        catalog.subscribe("two", DIVIDED[1])
        assert catalog.files != first
        with pytest.raises(StoreError, match="no plan"):
            first.claimed("reader", 1)
        with pytest.raises(StoreError, match="no plan"):
            replica_of(first, 0, 9)
        assert not first.directory.exists()


def _as_before(newest: Path) -> None:
    """Name the file as a release before did."""
    newest.rename(newest.with_name("plan"))


def _other_columns(newest: Path) -> None:
    """Write a plan without a column that relations of this release have."""
    with newest.open("wb") as file:
        file.write((7).to_bytes(8, "little"))
        for schema in PLAN.values():
            with pa.ipc.new_stream(file, schema.remove(len(schema) - 1)) as writer:
                writer.write_table(schema.remove(len(schema) - 1).empty_table())


@pytest.mark.parametrize(
    "harm",
    [
        _as_before,
        _other_columns,
        lambda newest: newest.write_bytes(newest.read_bytes()[:-9]),
        lambda newest: newest.write_bytes(newest.read_bytes()[:8]),
        lambda newest: newest.unlink(),
    ],
    ids=["earlier name", "other columns", "cut", "no relations", "lost"],
)
def test_a_plan_that_cannot_be_read_does_not_begin_again(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    """Versions of a plan that began again would have the numbers that micro-batches claimed."""
    with Catalog(tmp_path) as catalog:
        catalog.subscribe("one", DIVIDED[0])
        files = catalog.files
    harm(files.path)
    before = {path: path.read_bytes() for path in files.directory.iterdir()}
    for _ in range(2):
        with pytest.raises(StoreError, match="another release wrote it") as refused:
            Catalog(tmp_path)
        assert "spark list --json" in str(refused.value.hint)
    assert {path: path.read_bytes() for path in files.directory.iterdir()} == before


def test_claims_of_micro_batches_long_ago_are_removed(catalog: Catalog) -> None:
    for batch in range(1_000, 1_000 + 3 * CLAIMS):
        catalog.files.claimed("reader", batch)
    assert catalog.files.claimed("reader", 5) == 1, "the clock was set back"
    claims = catalog.files.directory / "claims" / "reader"
    kept = sorted(int(one.name) for one in claims.iterdir())
    assert kept == [5, *range(1_000 + 2 * CLAIMS - 1, 1_000 + 3 * CLAIMS)]


def test_a_catalog_continues_after_a_restart(tmp_path: Path) -> None:
    """Numbers, the versions from which subscriptions see documents, and the order of versions."""
    with Catalog(tmp_path) as catalog:
        catalog.subscribe_many({"one": DIVIDED[0], "two": DIVIDED[1]})
        catalog.unsubscribe("one")
        before = known(replica_at(catalog.files, catalog.files.current()))
        version = catalog.files.current()
    with Catalog(tmp_path) as catalog:
        assert catalog.files.current() == version, "nothing has changed"
        catalog.subscribe("three", DIVIDED[2])
        catalog.unsubscribe("three")
        assert known(replica_at(catalog.files, catalog.files.current())) == before


def test_a_subscription_sees_documents_from_the_next_micro_batch_on(catalog: Catalog) -> None:
    catalog.subscribe("first", DIVIDED[0])
    run = BucketRun(catalog, 3)
    assert not list(run.join([document(1, "v"), document(2, "w")]))
    catalog.subscribe("second", DIVIDED[0])
    catalog.subscribe("other", "S//a->x JOIN{x=y, 8} S//a->y")
    found = [(row["subscription"], row["documents"]) for row in run.join([document(3, "v")])]
    assert found == [("first", ["d1", "d3"])]
    catalog.unsubscribe("first")
    found = [(row["subscription"], row["documents"]) for row in run.join([document(4, "v")])]
    assert sorted(found) == [
        ("other", ["d3", "d4"]),
        ("other", ["d4", "d3"]),
        ("second", ["d3", "d4"]),
    ]


def test_one_process_has_a_catalog_open(tmp_path: Path) -> None:
    with Catalog(tmp_path), pytest.raises(StoreError, match="in use"):
        Catalog(tmp_path)
    with Catalog(tmp_path) as catalog:
        assert catalog.subscriptions == {}


def test_executors_that_do_not_see_the_directory_say_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no plan") as raised:
        replica_of(PlanFiles(tmp_path / "elsewhere"), 0, 3)
    assert raised.value.hint is not None
    assert "do not see its directory" in raised.value.hint


def test_the_first_task_of_a_micro_batch_decides_on_the_version(catalog: Catalog) -> None:
    catalog.subscribe("one", DIVIDED[0])
    first = catalog.files.claimed("reader", 17)
    catalog.subscribe("two", DIVIDED[1])
    assert catalog.files.claimed("reader", 17) == first
    assert catalog.files.claimed("reader", 18) == first + 1
    assert catalog.files.claimed("another", 17) == first + 1
