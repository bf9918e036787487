"""The data source without Spark: offsets and pointers follow from the spool alone."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from feeds.documents import Document
from feeds.spool import SegmentDamaged, Spool, SpoolError

pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxFiles, ReadMinRows
from pyspark.sql.types import StructType

from feeds.source import SpoolReader, SpoolSource


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool") as opened:
        yield opened


def fill(spool: Spool, count: int) -> None:
    for number in range(count):
        spool.append([Document("S", f"d{number}", number, b"<a/>")] * 2, 0)


def reader(spool: Spool, **options: str) -> SpoolReader:
    """A reader as Spark makes it, in another process and from a pickle."""
    source = SpoolSource({"path": str(spool.directory), **options})
    made = pickle.loads(pickle.dumps(source)).streamReader(StructType())
    copy = pickle.loads(pickle.dumps(made))
    assert isinstance(copy, SpoolReader)
    return copy


def pointers(reading: SpoolReader, start: int, end: int) -> list[tuple[int, str, int]]:
    found = reading.partitions({"segment": start}, {"segment": end})
    parts = pickle.loads(pickle.dumps(found))
    return [row for part in parts for row in reading.read(part)]


def test_offsets_follow_the_spool_up_to_the_limit(spool: Spool) -> None:
    reading = reader(spool, after="1", segments="2")
    assert reading.getDefaultReadLimit() == ReadMaxFiles(2)
    assert reading.initialOffset() == {"segment": 1}
    fill(spool, 6)
    assert reading.latestOffset({"segment": 1}, ReadMaxFiles(2)) == {"segment": 3}
    assert reading.latestOffset({"segment": 5}, ReadMaxFiles(2)) == {"segment": 6}
    assert reading.latestOffset({"segment": 6}, ReadMaxFiles(2)) == {"segment": 6}
    assert reading.latestOffset({"segment": 1}, ReadAllAvailable()) == {"segment": 6}
    with pytest.raises(SpoolError, match=r"knows no limit like ReadMinRows\(min_rows=1\)"):
        reading.latestOffset({"segment": 1}, ReadMinRows(1))


def test_deleted_segments_are_stepped_over(spool: Spool) -> None:
    fill(spool, 6)
    for number in (1, 2, 3, 6):
        spool.segment(number).path.unlink()
    reading = reader(spool)
    assert reading.latestOffset({"segment": 0}, ReadMaxFiles(1)) == {"segment": 4}
    assert reading.latestOffset({"segment": 4}, ReadMaxFiles(1)) == {"segment": 5}
    assert reading.latestOffset({"segment": 5}, ReadMaxFiles(1)) == {"segment": 6}
    assert [row[0] for row in pointers(reading, 0, 6)] == [4, 5]
    assert pointers(reading, 5, 6) == []


def test_available_now_ends_where_the_spool_ended_at_its_start(spool: Spool) -> None:
    reading = reader(spool)
    fill(spool, 3)
    reading.prepareForTriggerAvailableNow()
    fill(spool, 3)
    assert reading.latestOffset({"segment": 0}, ReadMaxFiles(2)) == {"segment": 2}
    assert reading.latestOffset({"segment": 2}, ReadMaxFiles(2)) == {"segment": 3}
    assert reading.latestOffset({"segment": 3}, ReadMaxFiles(2)) == {"segment": 3}
    assert reading.latestOffset({"segment": 4}, ReadMaxFiles(2)) == {"segment": 4}
    assert reading.latestOffset({"segment": 0}, ReadAllAvailable()) == {"segment": 3}


def test_rows_point_to_segments(spool: Spool) -> None:
    fill(spool, 3)
    expected = [(n, str(spool.directory / f"{n:012d}.arrow"), 2) for n in (2, 3)]
    assert pointers(reader(spool), 1, 3) == expected


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxFiles(2)])
def test_a_spool_that_went_backwards_is_an_error(
    spool: Spool, limit: ReadAllAvailable | ReadMaxFiles
) -> None:
    fill(spool, 2)
    with pytest.raises(SpoolError, match="gone backwards: segment 3 was consumed from it"):
        reader(spool).latestOffset({"segment": 3}, limit)


def test_a_damaged_segment_is_found_when_it_is_pointed_to(spool: Spool) -> None:
    fill(spool, 2)
    spool.segment(2).path.write_bytes(b"")
    with pytest.raises(SegmentDamaged):
        pointers(reader(spool), 0, 2)


def test_the_path_is_required() -> None:
    with pytest.raises(SpoolError, match="needs the option 'path'"):
        SpoolSource({}).streamReader(StructType())
