"""An image with the patterns that it lacks equals an automaton that is built without one."""

from __future__ import annotations

import ast
import errno
import io
import os
import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

import xscl
from feeds.documents import Document
from templates.model.relations import Pair
from xscl.engine.facade import Engine
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import install_pairs
from xscl.shredding.remote import image
from xscl.shredding.remote.image import AutomatonImage
from xscl.subscriptions.match import Match

CONDITIONS = (
    *('./k = "{n}"', "./p > {n}", "./p > 1 and ./p < {n}", 'contains(./t, "w{n}")'),
    *('starts-with(./t, "{n}")', "./k", ".//k", './k = "{n}" or ./p = {n}', "not(./k = {n})"),
)
QUERIES = [
    (
        f"{at} {n}",
        f"S//a[{condition.format(n=n)}]->v[./k->x] JOIN{{x = y, 1 d}} S//a[./k->y][./p > {n}]",
    )
    for at, condition in enumerate(CONDITIONS)
    for n in range(5)
]


def documents(first: int) -> list[Document]:
    return [
        Document(
            "S",
            f"d{n}",
            n * 1_000,
            f"<a><k>{n % 5}</k><p>{n % 7}</p><t>{n % 5} w{n % 9} w11</t></a>".encode(),
        )
        for n in range(first, first + 10)
    ]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write images of few pairs, too."""
    monkeypatch.setattr(image, "FEWEST", 1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of pairs of each request to an automaton."""
    counts: list[int] = []

    def counting(automaton: Automaton, pairs: Sequence[Pair]) -> None:
        counts.append(len(pairs))
        install_pairs(automaton, pairs)

    monkeypatch.setattr("xscl.planning.planned_subscriptions.install_pairs", counting)
    return counts


def found(matches: Sequence[Match]) -> list[tuple[object, ...]]:
    return sorted((m.subscription, tuple(m.documents)) for m in matches)


def expected(queries: Sequence[tuple[str, str]]) -> list[tuple[object, ...]]:
    with Engine() as engine:
        engine.subscribe_many(queries)
        return found([*engine.push(documents(0)), *engine.push(documents(10))])


def test_a_restart_asks_for_nothing(tmp_path: Path, asked: list[int]) -> None:
    path = tmp_path / "state.sqlite"
    with Engine(path) as engine:
        engine.subscribe_many(QUERIES)
        before = engine.push(documents(0))
        got = found(before)
    asked.clear()
    with Engine(path) as engine:
        assert asked == [0]
        got += found(engine.push(documents(10)))
        assert len(got) > 50
        assert sorted(got) == expected(QUERIES)


def test_what_came_and_went_since_is_asked_for_and_left(tmp_path: Path, asked: list[int]) -> None:
    path, old = tmp_path / "state.sqlite", tmp_path / "state.sqlite.image"
    with Engine(path) as engine:
        engine.subscribe_many(QUERIES[::2])
    kept = old.read_bytes()
    with Engine(path) as engine:
        for name, _ in QUERIES[:16:2]:
            engine.unsubscribe(name)
        engine.subscribe_many(QUERIES[17::2])
    old.write_bytes(kept)  # as after a kill
    asked.clear()
    with Engine(path) as engine:
        pairs = len(engine.host.state.dataflow.automaton)
        assert 0 < sum(asked) < pairs
        assert set(engine.host.state.dataflow.automaton) == set(engine.host.state.registry.pairs)
        got = found([*engine.push(documents(0)), *engine.push(documents(10))])
        assert got == expected(QUERIES[16:])
        for name, _ in QUERIES[16:]:
            engine.unsubscribe(name)
        assert len(engine.host.state.dataflow.automaton) == 0


def test_the_image_of_another_store_is_of_no_use(tmp_path: Path) -> None:
    one, other = tmp_path / "one.sqlite", tmp_path / "other.sqlite"
    for path, queries in ((one, QUERIES[:20]), (other, QUERIES[20:])):
        with Engine(path) as engine:
            engine.subscribe_many(queries)
    (tmp_path / "one.sqlite.image").replace(tmp_path / "other.sqlite.image")
    with Engine(other) as engine:
        got = found([*engine.push(documents(0)), *engine.push(documents(10))])
    assert got == expected(QUERIES[20:])


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "flipped", "a directory"])
def test_a_damaged_image_is_left(damage: str, tmp_path: Path, asked: list[int]) -> None:
    path, file = tmp_path / "state.sqlite", tmp_path / "state.sqlite.image"
    with Engine(path) as engine:
        engine.subscribe_many(QUERIES[:20])
    data = file.read_bytes()
    file.unlink()
    match damage:
        case "empty":
            file.write_bytes(b"")
        case "cut":
            file.write_bytes(data[: len(data) // 2])
        case "flipped":
            file.write_bytes(data[:999] + bytes([data[999] ^ 1]) + data[1000:])
        case "a directory":
            file.mkdir()
        case _:
            assert damage == "gone"
    asked.clear()
    with Engine(path) as engine:
        pairs = len(engine.host.state.dataflow.automaton)
        assert pairs > 0
        assert asked == [pairs]


def imported(module: str, found: set[Path]) -> None:
    """Add the files of a module of ours and of all that it imports."""
    path = Path(xscl.__file__).parents[1].joinpath(*module.split(".")).with_suffix(".py")
    if path in found or not path.is_file():
        return
    found.add(path)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for name in (node.module, *(f"{node.module}.{one.name}" for one in node.names)):
                imported(name, found)


def test_an_image_is_of_all_the_code_that_makes_an_automaton(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: set[Path] = set()
    for module in (
        "xscl.shredding.automaton.pattern",
        "xscl.planning.query_plan",
        "xscl.planning.compile_cache",
    ):
        imported(module, found)
    assert len(found) > 20
    assert {path.name for path in found - set(image.code())} == {"errors.py"}
    assert "xscl.lark" in {path.name for path in image.code()}

    other = tmp_path / "other.py"
    other.touch()
    before, paths = image._code(), image.code()
    monkeypatch.setattr(image, "code", lambda: [*paths, other])
    digests = []
    for text in ("a = 1", "a = 2"):
        other.write_text(text)
        image._code.cache_clear()
        digests.append(image._code())
    image._code.cache_clear()
    assert len({before, *digests}) == 3


def read(path: Path, data: bytes) -> Automaton:
    """Return the automaton of an image that has some bytes, with the digest that is right."""
    path.write_bytes(image._digest(data) + data)
    return AutomatonImage(path).automaton()


def test_an_image_calls_nothing_but_classes_of_stage_1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Harmful:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    assert len(read(tmp_path / "image", pickle.dumps(Harmful()))) == 0
    assert "mkdir belongs to no automaton" in caplog.text
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("xscl.ingestion.quarantine", "subprocess.Popen"),
        ("xscl.shredding.remote.image", "pickle.Unpickler"),
        ("xscl.shredding.remote.artefact", "Path"),
        ("xscl.shredding.remote.image", "code"),
        ("xscl.engine.facade", "Engine"),
        ("builtins", "dict"),
    ],
)
def test_an_image_makes_nothing_that_others_define(module: str, name: str) -> None:
    names = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name))
    data = b"\x80\x04" + names + pickle.STACK_GLOBAL + pickle.STOP
    with pytest.raises(pickle.UnpicklingError, match=f"{module}.{name} belongs to no automaton"):
        image._Unpickler(io.BytesIO(data)).load()


@pytest.mark.parametrize("data", [b"", b"\x80", pickle.dumps(1), pickle.dumps((1, 2, 3))])
def test_an_image_that_cannot_be_read_is_left(
    data: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(read(tmp_path / "image", data)) == 0
    assert "was not read" in caplog.text


def fail(*_: object) -> bytes:
    raise MemoryError


def test_an_image_that_cannot_be_written_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.sqlite"
    engine = Engine(path)
    engine.subscribe(*QUERIES[0])
    with monkeypatch.context() as patch:
        patch.setattr(image, "_pickled", fail)
        engine.close()
    assert "was not written: MemoryError()" in caplog.text
    with Engine(path) as engine:  # nobody has it open
        assert len(engine.subscriptions) == 1


def test_a_full_disk_keeps_no_part_of_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    automaton = Automaton()
    install_pairs(automaton, pairs := [Pair(1, "S//a", "S//a/k", False)])

    def full(self: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        AutomatonImage(tmp_path / "image").keep(
            automaton, {pair.number: pair for pair in pairs}.__getitem__
        )
    assert "no space left" in caplog.text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("at", [0, 40], ids=["digests", "pickle"])
def test_an_image_is_abandoned_when_its_time_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    """The one that was there stays, and nothing of the new one."""
    path = tmp_path / "image"
    path.write_bytes(b"as it was")
    automaton = Automaton()
    pairs = [Pair(n, "S//a", f"S//a/k{n}", False) for n in range(at + 1)]
    install_pairs(automaton, pairs)
    looks = iter(range(1_000))
    clock = SimpleNamespace(monotonic=lambda: next(looks))
    monkeypatch.setattr("xscl.shredding.remote.image.time", clock)
    AutomatonImage(path).keep(
        automaton, {pair.number: pair for pair in pairs}.__getitem__, until=at
    )
    assert "was not written: TimeoutError" in caplog.text
    assert path.read_bytes() == b"as it was"
    assert [one.name for one in tmp_path.iterdir()] == ["image"]


def test_a_store_is_closed_whatever_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(tmp_path / "state.sqlite")
    with monkeypatch.context() as patch:
        patch.setattr(engine.host.log._reader, "close", fail)
        with pytest.raises(MemoryError):
            engine.close()
    Engine(tmp_path / "state.sqlite").close()


def test_nobody_else_can_read_an_image(tmp_path: Path) -> None:
    with Engine(tmp_path / "state.sqlite") as engine:
        engine.subscribe_many(QUERIES[:20])
    assert (tmp_path / "state.sqlite.image").stat().st_mode & 0o777 == 0o600


def test_few_pairs_leave_no_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "FEWEST", 1_000)
    with Engine(tmp_path / "state.sqlite") as engine:
        engine.subscribe_many(QUERIES[:20])
    assert not (tmp_path / "state.sqlite.image").exists()
