"""Both consumers: every document once, in order, whatever fails between spool and store.

Starting Spark takes a dozen seconds and each query another one or two: hence one
session for all tests here, and few queries.
"""

import errno
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, TypeAlias

import pytest

from feeds.documents import Document
from feeds.spool import SegmentDamaged, Spool, SpoolError
from tests.examples import usually
from tests.waiting import PATIENCE
from xscl.documents.consumed_offsets import BatchKey
from xscl.engine.disk_guard import is_full
from xscl.engine.facade import Engine
from xscl.ingestion.engine_sink import EngineSink
from xscl.ingestion.pipeline import (
    Consumer,
    DirectConsumer,
    PipelineError,
)
from xscl.shredding.arrivals import BatchPart
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.batch.known_markup import MarkupCache, ReadDocument
from xscl.shredding.remote.artefact import ArtefactDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[3]
Build: TypeAlias = Callable[..., Consumer]
BOTH = pytest.mark.parametrize(
    "build", ["direct", pytest.param("spark", marks=pytest.mark.spark)], indirect=True
)


@dataclass
class Store:
    """A sink with consumed offsets, like the engine, that can be made to fail."""

    documents: list[Document] = field(default_factory=list)
    ledger: list[tuple[str, int]] = field(default_factory=list)
    refused: list[tuple[str, int]] = field(default_factory=list)
    beats: list[tuple[int, int]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    fail_before: str | None = None
    fail_after: str | None = None
    on_consume: Callable[[], None] = lambda: None
    hold: Callable[[], None] = lambda: None
    segment: int = 0

    def consume(
        self, documents: Sequence[Document], batch: BatchKey, parts: Sequence[BatchPart] = ()
    ) -> None:
        query_id, batch_id, segment, beats, _ = batch
        self.threads.add(threading.get_ident())
        ids = {document.id for document in documents}
        if self.fail_before in ids:
            raise ValueError(f"no room for {self.fail_before}")
        if (query_id, batch_id) in self.ledger:
            self.refused.append((query_id, batch_id))
        else:
            self.ledger.append((query_id, batch_id))
            self.beats += [(len(self.documents) + place, time) for place, time in beats]
            self.documents += documents
            self.segment = max(segment, self.segment)
        if self.fail_after in ids:
            raise ValueError(f"died after {self.fail_after}")
        self.on_consume()

    def publish_patterns(self, artefacts: ArtefactDirectory) -> None:
        artefacts.publish(Automaton())

    @property
    def ids(self) -> list[str]:
        return [document.id for document in self.documents]


def document(number: int) -> Document:
    return Document(("S", "T"), f"d{number}", number, b"<a>%d</a>" % number, number < 3, "test")


@pytest.fixture
def store() -> Store:
    return Store()


def fill(spool: Spool, *numbers: int) -> None:
    """Appends two segments, so that no batch of a test is just one."""
    half = len(numbers) // 2
    for part in (numbers[:half], numbers[half:]):
        spool.append([document(number) for number in part], 0)


@pytest.fixture
def build_spark(
    request: pytest.FixtureRequest, spool: Spool, store: Store, tmp_path: Path
) -> Build:
    session = request.getfixturevalue("spark_session")
    spark = pytest.importorskip("xscl.ingestion.spark.spark_pipeline")
    checkpoint = tmp_path / "checkpoint"
    patterns = tmp_path / "patterns"
    return lambda: spark.SparkConsumer(
        session, spool, store, checkpoint, patterns=patterns, segments=2
    )


@pytest.fixture
def build_direct(spool: Spool, store: Store) -> Build:
    return lambda: DirectConsumer(spool, store, batch=4)


@pytest.fixture
def build(request: pytest.FixtureRequest) -> Build:
    chosen: Build = request.getfixturevalue(f"build_{request.param}")
    return chosen


@BOTH
def test_failed_batches_surface_and_come_again_until_each_document_is_in(
    build: Build, spool: Spool, store: Store
) -> None:
    for start in range(0, 12, 4):
        fill(spool, *range(start, start + 4))
    store.fail_before = "d6"
    with pytest.raises(ValueError, match=r"^no room for d6$"):
        build().run_once()
    assert store.ids == ["d0", "d1", "d2", "d3"]

    store.fail_before, store.fail_after = None, "d6"  # as killed after the store's commit
    with pytest.raises(ValueError, match=r"^died after d6$"):
        build().run_once()

    store.fail_after = None
    build().run_once()
    assert store.documents == [document(number) for number in range(12)]
    assert store.threads == {threading.get_ident()}
    assert store.ledger == [(store.ledger[0][0], segment) for segment in (2, 4, 6)]
    assert store.refused == []


@BOTH
def test_serves_what_comes_and_stops_after_the_batch_in_progress(
    build: Build, spool: Spool, store: Store
) -> None:
    consumer = build()
    fill(spool, 0, 1)

    def more() -> None:
        # A batch may be planned between two appended segments, so that it has d2 without d3.
        if store.ids == ["d0", "d1"]:
            fill(spool, 2, 3)
        elif "d3" in store.ids:
            fill(spool, 4, 5)
            consumer.stop()

    store.on_consume = more
    consumer.serve(interval=0.01)
    assert store.ids == ["d0", "d1", "d2", "d3"]
    assert consumer.run_once() == 0


@BOTH
def test_beats_come_between_the_documents(build: Build, spool: Spool, store: Store) -> None:
    spool.beat(5)
    fill(spool, 0, 1)
    spool.beat(7)
    spool.beat(8)
    fill(spool, *range(2, 302))
    spool.beat(9)
    assert build().run_once() == 302
    assert store.ids == [f"d{number}" for number in range(302)]
    assert store.beats == [(0, 5), (2, 7), (2, 8), (302, 9)]
    assert store.segment == spool.latest()


@pytest.mark.spark
def test_a_store_changes_between_consumers_and_checkpoints_without_reading_again(
    build_direct: Build, build_spark: Build, spool: Spool, store: Store, tmp_path: Path
) -> None:
    fill(spool, 0, 1)
    assert build_direct().run_once() == 2
    fill(spool, 2, 3)
    assert build_spark().run_once() == 2
    fill(spool, 4, 5)
    assert build_direct().run_once() == 2
    fill(spool, 6, 7)
    assert build_spark().run_once() == 2
    assert build_direct().run_once() == 0
    (tmp_path / "checkpoint").rename(tmp_path / "elsewhere")
    fill(spool, 8, 9)
    assert build_spark().run_once() == 2
    assert store.ids == [f"d{number}" for number in range(10)]
    assert store.refused == []


QUERY = "S//a->x[./b->y] FOLLOWED BY{y=z, 10} S//a[./b->z]"


@pytest.mark.spark
def test_spark_listens_on_loopback_only(build_spark: Build, spool: Spool, store: Store) -> None:
    seen = set[str]()
    store.on_consume = lambda: seen.update(listening())
    fill(spool, 0, 1)
    build_spark().run_once()
    assert seen == {"127.0.0.1"}


@pytest.mark.spark
def test_documents_are_shredded_by_the_tasks(
    spark_session: "SparkSession", spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two micro-batches of two shares each; one no XML, one twice, one in two versions.

    Then one of a single share.
    """
    spark = pytest.importorskip("xscl.ingestion.spark.spark_pipeline")
    parsed: list[bytes] = []

    def read_here(markups: MarkupCache, xml: bytes) -> ReadDocument:
        parsed.append(xml)
        return read(markups, xml)

    read = MarkupCache.read
    monkeypatch.setattr(MarkupCache, "read", read_here)
    texts = [b"<r><a><b>%d</b></a></r>" % (number % 200) for number in range(600)]
    texts[300:302] = [b"<r><a>", texts[299]]
    batches = [
        [Document("S", f"d{min(n, 500)}", n // 40, xml) for n, xml in enumerate(texts)],
        [Document(("S", "T"), f"e{n}", 15, texts[n]) for n in range(20)],
    ]
    with Engine() as engine, Engine() as direct:
        for number, batch in enumerate(batches):
            for one in (engine, direct):
                one.subscribe(f"q{number}", QUERY.replace("10", str(10 + number)))
            for at in range(0, len(batch), 300):
                spool.append(batch[at : at + 300], 0)
            consumer = spark.SparkConsumer(
                spark_session,
                spool,
                EngineSink(engine),
                tmp_path / "c",
                patterns=tmp_path / "p",
                segments=1,
            )
            parsed.clear()
            assert consumer.run_once() == len(batch)
            assert parsed == ([texts[300]] if number == 0 else [])
            direct.push(batch)
            assert [m.id for m in engine.matches()] == [m.id for m in direct.matches()]
            assert [m.xml() for m in engine.matches()] == [m.xml() for m in direct.matches()]
        assert len(direct.matches()) > 100
        rejected = "SELECT * FROM rejected"
        assert engine.sql(rejected).to_pylist() == direct.sql(rejected).to_pylist()
    assert not list((tmp_path / "p").glob("*.witnesses"))


BOUNDED = (
    "S//r[./a->x] FOLLOWED BY{x = y, 100} S//r[./a->y]",
    "S//r[./a->x] JOIN{x = y, 100} S//r[./b->y]",
    "S//r[./a->x] FOLLOWED BY{x = y, 20} S//r[./b->y] FOLLOWED BY{y = z, 20} S//r[./a->z]",
    "(S//r[./a->x] FOLLOWED BY{x = y, 20} S//r[./b->y]) NEXT{y = z} S//r[./a->z]",
)


@pytest.mark.slow  # the bound is in the engine, which both consumers share
@pytest.mark.spark
def test_bounded_results_are_the_same_directly_and_through_spark(
    spark_session: "SparkSession", spool: Spool, tmp_path: Path
) -> None:
    """Documents that exceed the bound of results, in segments of which each consumer makes its own
    batches, against an engine that is given one after the other."""
    spark = pytest.importorskip("xscl.ingestion.spark.spark_pipeline")
    text = "<r><a>{}</a><a>{}</a><b>{}</b></r>"
    documents = [
        Document("S", f"d{n}", n // 2, text.format(n % 7, n % 5, n % 3).encode()) for n in range(60)
    ]
    for at in range(0, len(documents), 20):
        spool.append(documents[at : at + 20], 0)
    found = []
    for way in ("alone", "direct", "spark"):
        with Engine(result_bound=6) as engine:
            for number, query in enumerate(BOUNDED):
                engine.subscribe(f"q{number}", query)
            sink = EngineSink(engine)
            if way == "alone":
                for document in documents:
                    engine.push(document)
            elif way == "direct":
                assert DirectConsumer(spool, sink).run_once() == len(documents)
            else:
                place, patterns = tmp_path / "checkpoint", tmp_path / "patterns"
                consumer = spark.SparkConsumer(spark_session, spool, sink, place, patterns=patterns)
                assert consumer.run_once() == len(documents)
            engine.flush()
            stopped = [engine.stopped(f"q{number}") for number, _ in enumerate(BOUNDED)]
            assert all(stopped)
            found.append((sorted(match.id for match in engine.matches()), stopped))
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) > 300


@pytest.mark.spark
def test_a_damaged_segment_stops_spark_with_its_name(
    build_spark: Build, spool: Spool, store: Store
) -> None:
    fill(spool, 0, 1)
    path = spool.segment(2).path
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(PipelineError) as caught:
        build_spark().run_once()
    message = caught.value.message
    assert message.startswith(
        "Spark stopped reading the spool: feeds.spool_errors.SegmentDamaged: segm"
    )
    assert f"segment 2 in {path} is damaged" in message
    assert "\n" not in message
    assert store.ledger == []


@pytest.mark.spark
def test_a_checkpoint_that_cannot_be_written_is_a_clear_error(
    build_spark: Build, spool: Spool, tmp_path: Path
) -> None:
    fill(spool, 0, 1)
    (tmp_path / "checkpoint").write_text("a file is in the way")
    with pytest.raises(PipelineError, match=r"^Spark cannot read the spool: .*checkpoint"):
        build_spark().run_once()


def test_a_query_whose_first_process_comes_too_late_is_begun_again(
    spool: Spool, store: Store, tmp_path: Path
) -> None:
    pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    spark = pytest.importorskip("xscl.ingestion.spark.spark_pipeline")
    session = SimpleNamespace(dataSource=SimpleNamespace(register=lambda source: None))

    def runs(*failures: str) -> int:
        left = iter(failures)

        class Busy(spark.SparkConsumer):  # type: ignore[name-defined,misc]  # may not be there
            def _run_query(self, interval: float | None) -> int:
                if (failure := next(left, None)) is not None:
                    raise PipelineError(f"Spark stopped reading the spool: {failure}")
                return 1 + len(failures)

        return int(Busy(session, spool, store, tmp_path / "checkpoint").run_once())

    late = "Python worker failed to connect back."
    assert (runs(), runs(late), runs(late, late)) == (1, 2, 3)
    for failures in ((late,) * 5, ("another",)):
        with pytest.raises(PipelineError, match=f"spool: {failures[-1]}"):
            runs(*failures)


@pytest.mark.spark
@pytest.mark.parametrize("harm", usually(["emptied", "older", "of another store"], "emptied"))
def test_c12_what_spark_has_left_decides_nothing(
    harm: str, build_spark: Build, spool: Spool, store: Store, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    fill(spool, *range(4))
    build_spark().run_once()
    if harm == "older":
        shutil.copytree(checkpoint, tmp_path / "older")
    fill(spool, *range(4, 8))
    build_spark().run_once()
    if harm == "emptied":
        for path in checkpoint.rglob("*"):
            path.is_dir() or path.write_text("")
    elif harm == "older":
        shutil.rmtree(checkpoint)
        (tmp_path / "older").rename(checkpoint)
    else:
        store.documents, store.ledger, store.segment = [], [], 0
    fill(spool, *range(8, 12))
    build_spark().run_once()
    assert store.ids == [f"d{number}" for number in range(12)]


@pytest.mark.slow
@pytest.mark.spark
def test_c7_one_consumer_goes_on_when_the_store_has_room_again(
    build_spark: Build, spool: Spool, store: Store
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    fill(spool, *range(8))
    consumer = build_spark()
    store.hold = full
    with pytest.raises(OSError, match="No space left"):
        consumer.run_once()
    assert store.ids == []
    store.hold = lambda: None
    consumer.run_once()
    assert store.ids == [f"d{number}" for number in range(8)]


@pytest.mark.slow
@pytest.mark.spark
def test_c7_one_consumer_goes_on_when_its_checkpoint_has_room_again(
    build_spark: Build, spool: Spool, store: Store, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    if os.system(f"mount -t tmpfs -o size=4m tmpfs {checkpoint} 2>/dev/null"):
        pytest.skip("file systems cannot be mounted here")
    try:
        fill(spool, *range(4))
        consumer = build_spark()
        consumer.run_once()
        with suppress(OSError), (checkpoint / "fill").open("wb", buffering=0) as file:
            while file.write(bytes(4_096)):
                pass
        fill(spool, *range(4, 8))
        with pytest.raises(PipelineError) as caught:
            consumer.run_once()
        assert is_full(caught.value), caught.value
        (checkpoint / "fill").unlink()
        consumer.run_once()
        assert store.ids == [f"d{number}" for number in range(8)]
    finally:
        os.system(f"umount --lazy {checkpoint}")  # Spark has files of it open


def test_a_spool_that_went_backwards_is_refused(build_direct: Build, store: Store) -> None:
    store.segment = 7
    with pytest.raises(SpoolError, match="gone backwards: segment 7 was consumed"):
        build_direct().run_once()


@pytest.mark.usefixtures("apart")
@BOTH
def test_a_consumer_stops_at_a_lost_segment_after_those_before_it(
    build: Build, spool: Spool, store: Store
) -> None:
    fill(spool, 1, 2)
    fill(spool, 3, 4)
    path = spool.segment(3).path
    image = path.read_bytes()
    path.unlink()
    named = (
        rf"{path} is missing \(segment 3\): .* xscl spool skip 3 --data {spool.directory.parent}"
    )
    consumer = build()

    def consume_all() -> None:
        while consumer.run_once():  # what comes before it may be consumed first
            continue

    with pytest.raises((SpoolError, PipelineError), match=named):
        consume_all()
    assert store.ids == ["d1", "d2"]
    path.write_bytes(image)
    build().run_once()
    assert store.ids == ["d1", "d2", "d3", "d4"]


@pytest.mark.usefixtures("apart")
@BOTH
def test_a_consumer_goes_on_after_a_segment_that_was_given_up(
    build: Build, spool: Spool, store: Store
) -> None:
    fill(spool, 1, 2)
    fill(spool, 3, 4)
    spool.segment(3).path.unlink()
    spool.skip(3, 3)
    build().run_once()
    assert (store.ids, store.segment) == (["d1", "d2", "d4"], 4)


def test_batches_end_with_the_segment_that_fills_them(
    build_direct: Build, spool: Spool, store: Store
) -> None:
    for numbers in [(0,), (1, 2, 3), (4,), (5,), (6,)]:
        spool.append([document(number) for number in numbers], 0)
    build_direct().run_once()
    assert store.ledger == [("direct", 2), ("direct", 5)]
    assert store.ids == [f"d{number}" for number in range(7)]


def large(number: int, size: int) -> Document:
    return Document("S", f"d{number}", number, b"<a>%s</a>" % (b"x" * size))


def test_a_batch_has_as_many_documents_as_its_time_allows(spool: Spool, store: Store) -> None:
    for first in range(0, 5_000, 250):
        spool.append([document(number) for number in range(first, first + 250)], 0)
    now, done, slow = 0.0, 0, 1.0

    def took() -> None:
        nonlocal now, done
        sizes.append(len(store.documents) - done)
        now += slow * sizes[-1] / 1_000
        done = len(store.documents)

    sizes: list[int] = []

    def wait() -> None:
        nonlocal now
        now += 60.0  # for a disk that is full, say: documents do not take that

    store.on_consume, store.hold = took, wait
    consumer = DirectConsumer(spool, store, batch=2_000, seconds=1.0, clock=lambda: now)
    assert consumer.run_once() == 5_000
    assert sizes == [2_000, 1_000, 1_000, 1_000]
    slow = 100.0  # and then another engine: far too slow for what is aimed at
    for first in range(5_000, 7_000, 250):
        spool.append([document(number) for number in range(first, first + 250)], 0)
    consumer.run_once()
    assert sizes[4:] == [1_000, 250, 250, 250, 250]


def test_batches_are_bounded_by_bytes_too(spool: Spool, store: Store) -> None:
    for number, size in enumerate((4_000, 20, 5_000, 20_000, 20)):
        spool.append([large(number, size)], 0)
    DirectConsumer(spool, store, most_bytes=10_000).run_once()
    assert store.ledger == [("direct", 2), ("direct", 3), ("direct", 4), ("direct", 5)]
    assert store.ids == [f"d{number}" for number in range(5)]


@pytest.mark.usefixtures("apart")
def test_segments_are_looked_at_when_their_batch_comes(
    build_direct: Build, spool: Spool, store: Store
) -> None:
    """Segments before a damaged one are consumed."""
    for start in range(0, 12, 4):
        spool.append([document(start + number) for number in range(4)], 0)
    (spool.directory / "000000000003.arrows").write_bytes(b"")
    with pytest.raises(SegmentDamaged):
        build_direct().run_once()
    assert store.ledger == [("direct", 1), ("direct", 2)]


def test_a_batch_is_handed_over_once_the_one_before_is_done() -> None:
    pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    spark = pytest.importorskip("xscl.ingestion.spark.spark_pipeline")
    handover = spark.BatchHandover()
    given: list[int] = []
    raised: list[Exception] = []

    def give(*batches: int) -> None:
        try:
            for batch_id in batches:
                handover.put(spark.MicroBatch(((batch_id, 0, 1, None, 0),)))
                given.append(batch_id)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=give, args=(1, 2, 3))
    thread.start()
    first = handover.get(PATIENCE)
    assert handover.get(0.01) is None
    first.done.set_result(None)
    second = handover.get(PATIENCE)
    assert (first.rows[0][0], second.rows[0][0]) == (1, 2)
    error = ValueError("no room")
    second.done.set_exception(error)
    thread.join(PATIENCE)
    assert (given, raised) == ([1, 2], [error])


def test_a_closed_handover_turns_away_what_waits_and_what_comes() -> None:
    pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    spark = pytest.importorskip("xscl.ingestion.spark.spark_pipeline")
    for waiting in (False, True):
        handover = spark.BatchHandover()
        batch = spark.MicroBatch(())
        if waiting:
            handover.put(batch)
        handover.close()
        assert handover.get(0) is None
        with pytest.raises(spark.ConsumerStopped):
            handover.put(batch)


def test_consuming_directly_needs_no_spark() -> None:
    code = """
import sys
sys.modules["pyspark"] = None
import xscl.ingestion.pipeline
try:
    import xscl.ingestion.spark.spark_pipeline
except xscl.ingestion.pipeline.PipelineError as error:
    print(error.message, error.hint, sep=' | ')
"""
    done = run(code, {})
    assert done.stdout == (
        "Spark is not installed | pip install 'xscl[spark]', or go on without Spark\n"
    )


def run(code: str, environ: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def listening() -> set[str]:
    """The addresses on which this process and its descendants listen."""
    ours = {target for pid in process_tree(os.getpid()) for target in open_files(pid)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in ours:
                found.add(readable(fields[1].partition(":")[0]))
    return found


def process_tree(root: int) -> set[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    tree = {root}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return tree


def open_files(pid: int) -> Iterator[str]:
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            yield str(entry.readlink())
    except (FileNotFoundError, ProcessLookupError):
        return


def readable(address: str) -> str:
    """127.0.0.1 for every form of a loopback address, otherwise the kernel's hexadecimal."""
    loopback = {
        "0100007F",
        "0000000000000000FFFF00000100007F",
        "00000000000000000000000001000000",
    }
    return "127.0.0.1" if address in loopback else address
