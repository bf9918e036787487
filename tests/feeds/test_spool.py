"""The spool: what comes out is what went in, whatever happens between."""

import itertools
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.documents import Document
from feeds.errors import SegmentDamaged, SegmentGone, SegmentsMissing, SpoolError, SpoolUnavailable
from feeds.spool import Spool
from feeds.spool_files import SCHEMA
from tests.examples import examples
from tests.unprivileged import unprivileged
from tests.waiting import beside


def document(number: int) -> Document:
    return Document("S", f"d{number}", number, b"<a>%d</a>" % number)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path / "spool") as opened:
        yield opened


def ticks() -> st.SearchStrategy[int]:
    return st.integers(-(2**63), 2**63 - 1)


def documents() -> st.SearchStrategy[Document]:
    names = st.text(max_size=4)
    streams = names | st.lists(names, max_size=3).filter(lambda n: len(n) != 1).map(tuple)
    return st.builds(Document, streams, names, ticks(), st.binary(), st.booleans(), names)


@examples(20)
@given(st.lists(documents(), min_size=1), ticks())
def test_reads_what_was_appended(
    tmp_path_factory: pytest.TempPathFactory, batch: list[Document], arrived: int
) -> None:
    with Spool(tmp_path_factory.mktemp("spool")) as spool:
        number = spool.append(batch, arrived)
        assert spool.read(number) == batch
        (segment,) = spool.segments(0)
        assert (segment.number, segment.rows, segment.arrived) == (1, len(batch), arrived)


def test_segments_are_plain_arrow_files(spool: Spool) -> None:
    spool.append([Document(("S", "T"), "d", 5, b"<a/>", True, "here")], 7)
    (segment,) = spool.segments(0)
    with pa.memory_map(str(segment.path)) as file:
        table = pa.ipc.open_stream(file).read_all()
    assert table.schema.equals(SCHEMA)
    assert table.column_names == ["streams", "id", "ts", "arrived", "history", "origin", "xml"]
    times = table.select(["ts", "arrived"]).cast(pa.schema([("ts", "i8"), ("arrived", "i8")]))
    assert times.to_pylist() == [{"ts": 5, "arrived": 7}]


def test_numbers_go_on_after_a_restart_and_after_all_segments_were_deleted(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append([document(1)], 0)
        spool.append([document(2)], 0)
    with Spool(tmp_path) as spool:
        assert spool.append([document(3)], 0) == 3
    for segment in tmp_path.glob("*.arrows"):
        segment.unlink()
    with Spool(tmp_path) as spool:
        assert spool.latest() == 3
        assert spool.segments(0) == []
        assert spool.append([document(4)], 0) == 4


def test_a_lost_pointer_is_found_again_from_the_segments(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append([document(1)], 0)
        spool.append([document(2)], 0)
    (tmp_path / "latest").write_bytes(b"")
    assert Spool(tmp_path, read_only=True).latest() == 2
    (tmp_path / "latest").write_text("1\n")  # durable segment, older pointer
    assert Spool(tmp_path, read_only=True).latest() == 1
    with Spool(tmp_path) as spool:
        assert spool.latest() == 2
        assert spool.append([document(3)], 0) == 3


def test_what_a_killed_writer_left_behind_is_ignored_and_removed(tmp_path: Path) -> None:
    tmp_path.joinpath("000000000009.tmp").write_bytes(b"half a segm")
    assert Spool(tmp_path, read_only=True).latest() == 0
    with Spool(tmp_path) as spool:
        assert not list(tmp_path.glob("*.tmp"))
        assert spool.append([document(1)], 0) == 1


def failing(patch: pytest.MonkeyPatch, name: str, at: int) -> None:
    """Fail the call of this number, as on a full disk; the ones before and after succeed."""
    where, _, attribute = name.rpartition(".")
    owner: Any = {"os": os, "Path": Path}[where]
    real, calls = getattr(owner, attribute), itertools.count(1)

    def fail(*arguments: object, **named: object) -> object:
        if next(calls) == at:
            raise OSError(28, "No space left on device")
        return real(*arguments, **named)

    patch.setattr(owner, attribute, fail)


STEPS = {
    "file is synchronised": ("os.fsync", 1, 1_000),
    "latest is renamed": ("Path.rename", 1, 1_000),
    "new file is synchronised": ("os.fsync", 1, 1),
    "directory is synchronised": ("os.fsync", 2, 1),
    "latest is renamed after a new file": ("Path.rename", 1, 1),
}


def fail_an_append(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, step: str, *, cut: bool = True
) -> None:
    """Fail the second append in a step; `cut`: what it has written can be cut off again."""
    name, at, most = STEPS[step]
    monkeypatch.setattr("feeds.spool._MOST", most)
    spool.append([document(1)], 0)
    with monkeypatch.context() as patch:
        failing(patch, name, at)
        if not cut:
            failing(patch, "os.truncate", 1)
            failing(patch, "Path.unlink", 1)
        with pytest.raises(SpoolError, match=r"segment 2 cannot be written .*No space left"):
            spool.append([document(2)], 0)


@pytest.mark.parametrize("step", STEPS)
def test_a_failed_append_is_not_acknowledged_and_leaves_no_gap(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    fail_an_append(spool, monkeypatch, step)
    assert spool.latest() == 1
    assert spool.consecutive(0, 1) == [1]
    assert spool.append([document(3)], 0) == 2
    assert [spool.read(number) for number in spool.expect(0, 2)] == [[document(1)], [document(3)]]
    assert not list(spool.directory.glob("*.tmp"))


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_a_failed_append_leaves_no_gap_after_a_restart(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, step: str, cut: bool
) -> None:
    """Even if what was written cannot be cut off again; then it is whole, and may stay."""
    fail_an_append(spool, monkeypatch, step, cut=cut)
    spool.close()
    with Spool(spool.directory) as again:
        number = again.append([document(3)], 0)
        assert number == (2 if cut else 3)
        assert again.expect(0, number) == list(range(1, number + 1))


def test_what_is_left_of_a_failed_append_is_cut_off_before_another_file_begins(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a lost file would be called by the number behind what is left."""
    spool.append([document(1)], 0)
    with monkeypatch.context() as patch:
        failing(patch, "os.fsync", 1)
        for _ in range(3):
            failing(patch, "os.truncate", 1)
            with pytest.raises(SpoolError):
                spool.append([document(2)], 0)
            assert spool.latest() == 1
    assert spool.append([document(3)], 0) == 2
    assert spool.append([document(4)], 0) == 3
    assert stored(spool, spool.expect(0, 3)) == [[document(n)] for n in (1, 3, 4)]
    path = spool.segment(3).path
    path.unlink()
    with pytest.raises(SegmentsMissing, match=r"02\.arrows is missing \(segments 2 to 3\)") as lost:
        spool.consecutive(1, 3)
    assert lost.value.path == path


def test_a_segment_that_readers_can_see_is_never_replaced(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append may be interrupted after `latest` has its number."""
    real = Path.rename

    def interrupted(source: Path, target: Path) -> Path:
        done = real(source, target)
        if target.name == "latest":
            raise KeyboardInterrupt
        return done

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            spool.append([document(1)], 0)
    assert spool.append([document(2)], 0) == 2
    assert spool.read(1) == [document(1)]


@pytest.mark.parametrize(
    ("lost", "before", "ranges"),
    [
        ([1], [], [(1, 1)]),
        ([4], [1, 2, 3], [(4, 4)]),
        ([6], [1, 2, 3, 4, 5], [(6, 6)]),
        ([2, 3, 5], [1], [(2, 3), (5, 5)]),
        ([1, 2, 3, 4, 5, 6], [], [(1, 6)]),
    ],
    ids=str,
)
@pytest.mark.usefixtures("apart")
def test_a_lost_segment_is_named_with_the_command_that_gives_it_up(
    spool: Spool,
    lost: list[int],
    before: list[int],
    ranges: list[tuple[int, int]],
) -> None:
    filled(spool)
    for number in lost:
        spool.segment(number).path.unlink()
    assert before == (spool.consecutive(0, 6) if before else [])
    for first, last in ranges:
        numbers = f"{first}" if first == last else f"{first}-{last}"
        with pytest.raises(SegmentsMissing) as caught:
            spool.consecutive(first - 1, 6)
        assert (caught.value.first, caught.value.last) == (first, last)
        assert str(caught.value).startswith(f"{spool.directory}/{first:012d}.arrows is missing (")
        assert str(caught.value).endswith(
            f"xscl spool skip {numbers} --data {spool.directory.parent}"
        )
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
        with pytest.raises(SegmentsMissing):
            spool.expect(0, 6)
        spool.skip(first, last)
        with pytest.raises(SegmentsMissing) if last != ranges[-1][1] else nullcontext():
            spool.expect(0, 6)
    rest = [number for number in range(1, 7) if number not in lost]
    assert spool.expect(0, 6) == spool.consecutive(0, 6) == rest
    spool.close()
    with Spool(spool.directory) as again:
        assert again.expect(0, 6) == rest
        assert again.append([document(7)], 7) == 7


@pytest.mark.usefixtures("apart")
def test_only_what_is_lost_or_damaged_is_given_up(spool: Spool) -> None:
    filled(spool)
    path = spool.segment(4).path
    path.write_bytes(path.read_bytes()[:-90])
    spool.segment(2).path.unlink()
    with pytest.raises(SpoolError, match=r"segment 3 in .* is sound: it will be consumed"):
        spool.skip(2, 4)
    for first, last in ((0, 1), (6, 7), (5, 4)):
        with pytest.raises(SpoolError, match=f"never had segments {first} to {last}"):
            spool.skip(first, last)
    with pytest.raises(SegmentsMissing):
        spool.expect(0, 6)
    spool.skip(2, 2)
    assert spool.expect(0, 6) == [1, 3, 4, 5, 6]
    spool.skip(4, 4)
    assert spool.expect(0, 6) == [1, 3, 5, 6]
    assert path.exists()
    spool.close()
    with pytest.raises(SpoolError, match="closed: nothing can be given up"):
        spool.skip(4, 5)


@examples(25)
@given(
    st.sets(st.integers(1, 12), max_size=6),
    st.sets(st.integers(1, 12), max_size=6),
    st.integers(0, 11),
    st.integers(0, 12),
    st.integers(1, 12),
)
def test_lost_is_what_is_neither_there_nor_deleted_nor_given_up(
    tmp_path_factory: pytest.TempPathFactory,
    removed: set[int],
    skipped: set[int],
    forgotten: int,
    after: int,
    limit: int,
) -> None:
    with Spool(tmp_path_factory.mktemp("spool")) as spool, pytest.MonkeyPatch.context() as patch:
        patch.setattr("feeds.spool._MOST", 1)
        filled(spool, 12)
        spool.forget(forgotten)
        for number in removed - set(range(forgotten + 1)):
            spool.segment(number).path.unlink()
            if number in skipped:
                spool.skip(number, number)
        lost = removed - skipped - set(range(forgotten + 1))
        there = [n for n in range(forgotten + 1, 13) if n not in removed]
        soonest = min((n for n in lost if n > after), default=13)
        expected = [n for n in there if after < n < soonest][:limit]
        if expected or soonest == 13:
            assert spool.consecutive(after, 12, limit) == expected
        else:
            with pytest.raises(SegmentsMissing):
                spool.consecutive(after, 12, limit)
        if soonest == 13:
            assert spool.expect(after, 12) == [n for n in there if n > after]
        else:
            with pytest.raises(SegmentsMissing) as caught:
                spool.expect(after, 12)
            assert caught.value.first == soonest


def test_nothing_is_visible_before_the_directory_is_synchronised(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    synchronise, rename = os.fsync, Path.rename

    def watched_fsync(descriptor: int) -> None:
        kind = "directory" if Path(f"/proc/self/fd/{descriptor}").is_dir() else "file"
        steps.append(f"fsync {kind}, latest {spool.latest()}")
        synchronise(descriptor)

    def watched_rename(source: Path, target: Path) -> Path:
        steps.append(f"rename to {target.name}")
        return rename(source, target)

    monkeypatch.setattr("os.fsync", watched_fsync)
    monkeypatch.setattr("pathlib.Path.rename", watched_rename)
    spool.append([document(1)], 0)
    spool.append([document(2)], 0)
    assert steps == [
        *("fsync file, latest 0", "fsync directory, latest 0", "rename to latest"),
        *("fsync file, latest 1", "rename to latest"),
    ]


def test_a_reader_changes_nothing_and_cannot_append(spool: Spool) -> None:
    reader = Spool(spool.directory, read_only=True)
    spool.append([document(1)], 0)
    assert reader.read(reader.latest()) == [document(1)]
    with pytest.raises(SpoolError, match="opened for reading only: nothing can be appended"):
        reader.append([document(2)], 0)
    with pytest.raises(SpoolError, match="opened for reading only: nothing can be deleted"):
        reader.forget(1)
    spool.close()
    with pytest.raises(SpoolError, match="closed: nothing can be appended"):
        spool.append([document(2)], 0)


def test_threads_append_without_losing_or_mixing_anything(spool: Spool) -> None:
    def run(thread: int) -> None:
        for number in range(10):
            spool.append([document(100 * thread + number)], 0)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))
    stored = [d.timestamp for s in spool.segments(0) for d in spool.read(s.number)]
    assert sorted(stored) == [100 * thread + number for thread in range(4) for number in range(10)]


def test_no_changed_byte_goes_unnoticed(spool: Spool) -> None:
    original = [document(1), Document(("S", "T"), "e", 5, b"<b/>", True, "here")]
    path = spool.segment(spool.append(original, 7)).path
    image = path.read_bytes()
    errors: list[str] = []
    for position in range(len(image)):
        changed = bytearray(image)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        try:
            # Padding and the parts of the footer that say nothing new may change.
            assert spool.read(1) == original, f"byte {position} of {len(image)}"
        except SegmentDamaged as error:
            errors.append(str(error))
    assert len(errors) > len(image) // 2
    assert all(str(path) in error for error in errors)


@pytest.mark.parametrize(
    "damage",
    [
        lambda image: b"",
        lambda image: image[: len(image) // 2],
        lambda image: b"<a>not Arrow</a>",
    ],
    ids=["empty", "cut in half", "text"],
)
def test_a_damaged_segment_is_an_error_that_names_the_file(
    spool: Spool, damage: Callable[[bytes], bytes]
) -> None:
    path = spool.segment(spool.append([document(1)], 0)).path
    path.write_bytes(damage(path.read_bytes()))
    reader = Spool(spool.directory, read_only=True)  # the writer knows the heads from before
    for look in (spool.read, reader.read, reader.segment):
        with pytest.raises(SegmentDamaged) as caught:
            look(1)
        assert str(caught.value).startswith(f"segment 1 in {path} is damaged (")
        assert str(caught.value).endswith(
            "; put the file back from a backup, or go on without their documents: "
            f"xscl spool skip 1 --data {spool.directory.parent}"
        )
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_other_mistakes_have_one_clear_sentence(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        SpoolError, match=r"there is no segment 1 in .*: it was deleted or never written"
    ):
        spool.read(1)
    with pytest.raises(SpoolError, match=r"there is no spool at .*nowhere"):
        Spool(spool.directory / "nowhere", read_only=True)
    with pytest.raises(SpoolError, match="gone backwards: segment 5 was consumed from it"):
        spool.numbers(5)
    with pytest.raises(SpoolError, match="a document does not fit the spool's columns"):
        spool.append([Document("S", "\ud800", 0, b"<a/>")], 0)
    with pytest.raises(SpoolError, match="a document does not fit the spool's columns"):
        spool.append([Document("S", "late", 2**63, b"<a/>")], 0)
    monkeypatch.setattr("feeds.spool_files.MAX_BYTES", 3)
    with pytest.raises(SpoolError, match=r"1 documents of 4 bytes .*; append them in several"):
        spool.append([Document("S", "big", 0, b"<a/>")], 0)
    assert spool.latest() == 0


# -- Forgetting ----------------------------------------------------------------------------


def filled(spool: Spool, count: int = 6) -> None:
    """Append so many segments of one document each."""
    for number in range(1, count + 1):
        assert spool.append([document(number)], number) == number


@pytest.mark.usefixtures("apart")
def test_of_what_was_consumed_the_newest_stay_as_far_as_they_fit(spool: Spool) -> None:
    for number in range(1, 7):  # none is so small that it counts as more
        spool.append([replace(document(number), xml=b"<a>%d</a>" % number + b" " * 5_000)], number)
    sizes = [spool.segment(number).path.stat().st_size for number in range(1, 7)]
    assert spool.forget(5, keep=sum(sizes[2:5])) == 2
    assert spool.numbers(0) == [3, 4, 5, 6]
    assert spool.forget(5, keep=sum(sizes[2:5])) == 0
    assert spool.forget(5, keep=sizes[4] + sizes[3] - 1) == 2
    assert spool.numbers(0) == [5, 6]


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("up_to", [6, 100])
def test_the_newest_segment_stays_so_that_numbers_go_on_without_a_pointer(
    spool: Spool, up_to: int
) -> None:
    filled(spool)
    assert spool.forget(up_to) == 5
    spool.close()
    (spool.directory / "latest").unlink()  # as a power cut may do
    with Spool(spool.directory) as again:
        assert (again.numbers(0), again.latest()) == ([6], 6)
        assert again.append([document(7)], 7) == 7
        assert again.forget(up_to) == 1


@examples(15)
@given(st.lists(st.integers(0, 9), max_size=5), st.integers(0, 8), st.integers(0, 8))
def test_a_kill_halfway_loses_nothing_that_is_needed(
    tmp_path_factory: pytest.TempPathFactory, ends: list[int], kill: int, last: int
) -> None:
    directory = tmp_path_factory.mktemp("spool")
    delete, left = Path.unlink, [kill]

    def until_killed(path: Path, missing_ok: bool = False) -> None:
        if path.suffix == ".arrows":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        delete(path, missing_ok)

    with Spool(directory) as spool, pytest.MonkeyPatch.context() as patch:
        patch.setattr("feeds.spool._MOST", 1)
        filled(spool)
        patch.setattr("pathlib.Path.unlink", until_killed)
        with suppress(KeyboardInterrupt):
            for end in ends:
                spool.forget(end)
    done = min(5, max(ends, default=0))
    with Spool(directory) as spool:
        assert spool.latest() == 6
        assert [spool.read(n)[0] for n in spool.numbers(done)] == [
            document(n) for n in range(done + 1, 7)
        ]
        spool.forget(last)
        assert spool.numbers(0)[0] >= min(6, last + 1)
        assert spool.append([document(7)], 7) == 7


class Losing(Spool):
    """A spool of which some segments go as soon as the directory was listed."""

    lost: tuple[int, ...] = ()

    def numbers(self, after: int, limit: int | None = None) -> list[int]:
        found = super().numbers(after, limit)
        for number in self.lost:
            (self.directory / f"{number:012d}.arrows").unlink(missing_ok=True)
        return found


@pytest.mark.usefixtures("apart")
def test_whoever_looks_at_segments_leaves_out_those_that_go_meanwhile(spool: Spool) -> None:
    for number in range(5):
        spool.append([document(number)], 0)
    reader = Losing(spool.directory, read_only=True)
    reader.lost = (2, 3)
    assert [segment.number for segment in reader.segments(1)] == [4, 5]
    with pytest.raises(SegmentGone, match="it was deleted or never written"):
        reader.segment(3)


@pytest.mark.usefixtures("apart")
def test_deleting_while_others_append_and_read(spool: Spool) -> None:
    seen: list[int] = []

    def consume() -> None:
        while len(seen) < 40:
            for number in spool.numbers(len(seen)):
                assert spool.read(number) == [document(number)]
                seen.append(number)
                spool.forget(number)

    with beside(consume):
        filled(spool, 40)
    assert seen == list(range(1, 41))
    assert spool.numbers(0) == [40]


# -- Files of many segments ----------------------------------------------------------------


def files_of(spool: Spool) -> list[int]:
    """Return the first segments of the files."""
    return sorted(int(path.stem) for path in spool.directory.glob("*.arrows"))


def stored(spool: Spool, numbers: list[int]) -> list[list[Document]]:
    return [spool.read(number) for number in numbers]


def test_a_file_that_is_full_ends_and_the_next_segment_begins_another(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feeds.spool._MOST", 4)
    filled(spool, 6)
    spool.close()
    with Spool(spool.directory) as again:
        assert again.append([document(7)], 7) == 7
    assert files_of(spool) == [1, 5]
    images = [path.read_bytes() for path in sorted(spool.directory.glob("*.arrows"))]
    for image, ids in zip(images, (["d1", "d2", "d3", "d4"], ["d5", "d6", "d7"]), strict=True):
        assert pa.ipc.open_stream(image).read_all()["id"].to_pylist() == ids
    monkeypatch.setattr("feeds.spool._FULL", 1)
    with Spool(spool.directory) as again:
        again.append([document(8)], 8)
        again.append([document(9)], 9)
    assert files_of(spool) == [1, 5, 8, 9]
    assert stored(spool, spool.expect(0, 9)) == [[document(n)] for n in range(1, 10)]


@examples(40)
@given(st.integers(0, 4), st.integers(0, 2_000), st.binary(max_size=2_000), st.booleans())
def test_a_torn_end_is_cut_off_and_nothing_acknowledged_is_lost(
    tmp_path_factory: pytest.TempPathFactory, acknowledged: int, kept: int, junk: bytes, lost: bool
) -> None:
    """A power cut leaves a part of the append that was not acknowledged, with anything behind."""
    directory = tmp_path_factory.mktemp("spool")
    with Spool(directory) as spool:
        filled(spool, acknowledged)
        before = {path: path.read_bytes() for path in directory.glob("*.arrows")}
        spool.append([document(99)], 99)
    (directory / "latest").write_text("" if lost else f"{acknowledged}\n")
    (path,) = directory.glob("*.arrows")
    image, old = path.read_bytes(), before.get(path, b"")
    torn = image[len(old) :][:kept] + (junk if kept < len(image) - len(old) else b"")
    path.write_bytes(old + torn)
    is_whole = torn.startswith(image[len(old) :])
    reader = Spool(directory, read_only=True)
    assert reader.latest() == acknowledged + (lost and is_whole)
    with Spool(directory) as spool:
        numbers = spool.expect(0, spool.latest())
        assert len(numbers) == acknowledged + is_whole
        assert stored(spool, numbers)[:acknowledged] == [
            [document(n)] for n in range(1, acknowledged + 1)
        ]
        assert spool.append([document(100)], 100) == len(numbers) + 1
        for path in directory.glob("*.arrows"):
            pa.ipc.open_stream(path.read_bytes()).read_all()
    assert [one.id for n in reader.expect(0, reader.latest()) for one in reader.read(n)][-1:] == [
        "d100"
    ]


@examples(60)
@given(st.data())
def test_damage_takes_no_other_segment_with_it(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("spool")
    with Spool(directory) as spool:
        filled(spool, 6)
        path = spool.segment(1).path
    image = bytearray(path.read_bytes())
    begin = data.draw(st.integers(456, len(image) - 1))
    length = data.draw(st.sampled_from([1, 8, 64, 512, 1_500]))
    image[begin : begin + length] = bytes(255 - one for one in image[begin : begin + length])
    path.write_bytes(image)
    reader = Spool(directory, read_only=True)
    assert reader.consecutive(0, 6) == [1, 2, 3, 4, 5, 6]
    size = (len(image) - 456) // 6
    hit = {1 + (at - 456) // size for at in range(begin, min(begin + length, len(image)))}
    damaged: list[int] = []
    for number in range(1, 7):
        try:
            assert reader.read(number) == [document(number)]
        except SegmentDamaged as error:
            damaged += range(error.first, error.last + 1)
    assert set(damaged) <= hit
    with Spool(directory) as spool:
        assert spool.append([document(7)], 7) == 7
        for number in set(damaged):
            spool.skip(number, number)
        assert spool.expect(0, 7) == [n for n in range(1, 8) if n not in damaged]
        assert stored(spool, spool.expect(0, 7)) == [
            [document(n)] for n in range(1, 8) if n not in damaged
        ]


def test_the_end_of_what_was_acknowledged_is_missed(tmp_path: Path) -> None:
    """Nothing is cut off, and new segments do not hide it."""
    with Spool(tmp_path) as spool:
        filled(spool)
        path, size = spool.segment(1).path, spool.segment(1).size
    path.write_bytes(path.read_bytes()[: -size - 9])
    with Spool(tmp_path) as spool:
        assert spool.append([document(7)], 7) == 7
        assert files_of(spool) == [1, 7]
        with pytest.raises(SegmentDamaged, match=r"segments 5 to 6 in .*01\.arrows are damaged"):
            stored(spool, spool.expect(0, 7))
        spool.skip(5, 6)
        assert spool.expect(0, 7) == [1, 2, 3, 4, 7]


@pytest.mark.parametrize("harm", ["removed", "cut", "replaced"])
def test_nothing_is_appended_to_a_file_that_somebody_has_changed(spool: Spool, harm: str) -> None:
    filled(spool, 3)
    path = spool.segment(1).path
    image = path.read_bytes()
    path.unlink()
    if harm == "cut":
        path.write_bytes(image[:-9])
    elif harm == "replaced":
        path.write_bytes(image)
    assert spool.append([document(4)], 4) == 4
    reader = Spool(spool.directory, read_only=True)
    assert reader.read(4) == [document(4)]
    assert files_of(spool) == [*([] if harm == "removed" else [1]), 4]


def test_a_spool_of_an_earlier_release_is_refused_with_the_commands(tmp_path: Path) -> None:
    (tmp_path / "000000000007.arrow").write_bytes(b"ARROW1")
    for read_only in (True, False):
        with pytest.raises(SpoolError, match=r"07\.arrow is of .* 'xscl export FILE'.* 'xscl imp"):
            Spool(tmp_path, read_only=read_only)


@pytest.mark.parametrize("deleted", [0, 3])
def test_the_name_of_a_lost_file_is_known_even_if_it_was_consumed_in_part(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    monkeypatch.setattr("feeds.spool._MOST", 3)
    filled(spool, 9)
    assert spool.forget(deleted) == deleted // 3
    path = spool.segment(5).path
    image = path.read_bytes()
    path.unlink()
    with pytest.raises(
        SegmentsMissing, match=r"04\.arrows is missing \(segments 5 to 6\)"
    ) as caught:
        spool.consecutive(4, 9)
    assert caught.value.path == path
    path.write_bytes(image)
    assert spool.consecutive(4, 9) == [5, 6, 7, 8, 9]


# -- Erasing ---------------------------------------------------------------------------------


def mixed(number: int) -> list[Document]:
    return [
        Document("_1.own", f"mine{number}", number, b"<secret/>", True, "secret"),
        Document(("S", "_1.own"), f"both{number}", number, b"<b/>"),
        Document("_12.own", f"other{number}", number, b"<c/>"),
    ]


def test_erased_documents_leave_no_byte_and_all_others_stay(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("feeds.spool._MOST", 2)
    for number in range(1, 4):
        spool.append(mixed(number), number)
    spool.beat(4)
    spool.append([document(5)], 5)
    reader = Spool(spool.directory, read_only=True)
    before = reader.segments(0)
    assert [len(reader.read(number)) for number in (1, 2, 3)] == [3, 3, 3]
    untouched = spool.segment(5).path.stat().st_ino
    assert spool.erase("_1.") == 6
    images = b"".join(path.read_bytes() for path in spool.directory.glob("*.arrows"))
    assert b"secret" not in images
    assert b"_1." not in images
    assert b"mine" not in images
    for number in (1, 2, 3):
        assert reader.read(number) == [
            Document((), "", number, b"<erased/>"),
            Document("S", f"both{number}", number, b"<b/>"),
            mixed(number)[2],
        ]
    after = reader.segments(0)
    assert [(one.number, one.rows, one.arrived) for one in after] == [
        (one.number, one.rows, one.arrived) for one in before
    ]
    assert spool.segment(5).path.stat().st_ino == untouched
    assert spool.erase("_1.") == 0
    spool.close()
    with Spool(spool.directory) as again:
        assert again.append([document(6)], 6) == 6
        assert again.expect(0, 6) == [1, 2, 3, 4, 5, 6]


def test_what_nobody_can_read_is_given_up_before_it_is_erased(spool: Spool) -> None:
    for number in range(1, 4):
        spool.append(mixed(number), number)
    path = spool.segment(2).path
    image = path.read_bytes()
    at = image.index(b"<secret/>", image.index(b"mine2"))
    path.write_bytes(image[:at] + b"<SECRET/>" + image[at + 9 :])
    with pytest.raises(SegmentDamaged, match="xscl spool skip 2 "):
        spool.erase("_1.")
    spool.skip(2, 2)
    assert spool.erase("_1.") == 4
    assert b"SECRET" not in path.read_bytes()
    assert spool.expect(0, 3) == [1, 3]
    assert len(stored(spool, [1, 3])) == 2


def test_a_torn_remainder_is_erased_too(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.append([document(1)], 1)
    with monkeypatch.context() as patch:
        failing(patch, "os.fsync", 1)
        failing(patch, "os.truncate", 1)
        with pytest.raises(SpoolError):
            spool.append(mixed(2), 2)
    path = spool.segment(1).path
    assert b"secret" in path.read_bytes()
    spool.append([document(2)], 2)
    assert spool.erase("_1.") == 0
    assert b"secret" not in path.read_bytes()
    assert stored(spool, spool.expect(0, 2)) == [[document(1)], [document(2)]]


# -- A spool of which a part may not be read or written, or that was removed ---------------


FILE = "000000000001.arrows"
DOCUMENT = Document("S", "d", 1, b"<a/>")


def written(directory: Path) -> Path:
    """Write a spool with two segments and a list of absent ones; return its directory."""
    with Spool(directory) as spool:
        for _ in range(3):
            spool.append([DOCUMENT], 1)
        path = directory / FILE
        image = path.read_bytes()
        path.write_bytes(image.replace(b"<a/>", b"<b/>", 1))
        spool.skip(1, 1)
    return directory


def begin(directory: Path) -> None:
    Spool(directory).close()


def read(directory: Path) -> None:
    spool = Spool(directory, read_only=True)
    spool.numbers(0)
    spool.read(3)


def skip(directory: Path) -> None:
    with Spool(directory) as spool:
        spool.skip(2, 2)


CASES: list[tuple[Callable[[Path], None], str, int, str]] = [
    (begin, FILE, 0o400, FILE),
    (begin, FILE, 0o000, FILE),
    (begin, "latest", 0o000, "latest"),
    (begin, ".", 0o500, "latest.tmp"),
    (begin, ".", 0o000, "latest"),
    (read, FILE, 0o000, FILE),
    (read, "latest", 0o000, "latest"),
    (read, "absent", 0o000, "absent"),
    (skip, FILE, 0o000, FILE),
]


@pytest.fixture
def closed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A spool whose modes are as they were after the test."""
    directory = written(tmp_path / "spool")
    yield directory
    directory.chmod(0o700)


@pytest.mark.parametrize(("use", "name", "mode", "named"), CASES)
def test_what_may_not_be_used_is_named_with_what_to_do(
    closed: Path, use: Callable[[Path], None], name: str, mode: int, named: str
) -> None:
    kept = {one.name: one.read_bytes() for one in closed.iterdir()}
    rights = (closed / name).stat().st_mode
    (closed / name).chmod(mode)
    with unprivileged(), pytest.raises(SpoolUnavailable) as raised:
        use(closed)
    message = str(raised.value)
    assert message.startswith(f"{closed / named} cannot be read or written (Permission denied)")
    assert "let this user read and write it" in message
    (closed / name).chmod(rights)
    assert {one.name: one.read_bytes() for one in closed.iterdir()} == kept
    begin(closed)
    read(closed)


def test_a_segment_that_may_not_be_read_is_not_taken_for_a_damaged_one(closed: Path) -> None:
    """Else the error would tell its reader to go on without its documents."""
    spool = Spool(closed, read_only=True)
    with pytest.raises(SegmentDamaged):
        spool.read(1)
    (closed / FILE).chmod(0)
    with unprivileged(), pytest.raises(SpoolUnavailable):
        spool.read(3)
    (closed / FILE).chmod(0o600)
    assert spool.read(3) == [DOCUMENT]


def test_what_may_not_be_written_is_not_erased(closed: Path) -> None:
    with Spool(closed) as spool:
        closed.chmod(0o500)
        with unprivileged(), pytest.raises(SpoolUnavailable, match=rf"{FILE}.tmp cannot be"):
            spool.erase("S")
        closed.chmod(0o700)
        assert spool.erase("S") == 2


def test_a_spool_that_is_removed_while_it_is_open_says_what_to_do(closed: Path) -> None:
    for use in (Spool.latest, Spool.refuse_more, lambda spool: spool.read(3)):
        spool = Spool(closed, read_only=True)
        closed.rename(closed.parent / "away")
        with pytest.raises(SpoolError, match=rf"the spool {closed} was removed; put back the sp"):
            use(spool)
        (closed.parent / "away").rename(closed)
        assert spool.read(3) == [DOCUMENT]
