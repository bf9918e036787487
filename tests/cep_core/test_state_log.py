"""The entries of a log say all that there is, whatever m-op keeps it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgpack
import pytest

from cep_core import ALL_RULES, Engine, Event, Rule
from cep_core.state.snapshot import Codec
from cep_core.state.state_log import StateLog, StateWriter

QUERIES = {
    "next": ("SELECT * FROM A NEXT{$1.k = $2.k} B", "cel"),
    "join": ("SELECT * FROM A JOIN{$1.k = $2.k, 6 s} B", "cel"),
    "mean": ("SELECT k, COUNT(*) AS n FROM A GROUP BY k WINDOW 6 s", "cel"),
    "negation": ("EVENT SEQ(A a, B b, !C c) WHERE [k] WITHIN 6", "sase"),
    "runs": ("EVENT SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) {[k]} WITHIN 9", "sase"),
    "longer join": ("SELECT * FROM A JOIN{$1.k = $2.k, 9 s} B", "cel"),
    "selected": ("EVENT SEQ(A a, B b) WHERE a.k > 'x' AND b.k > a.k WITHIN 9", "sase"),
    "selected otherwise": ("EVENT SEQ(A a, B b) WHERE a.k < 'z' AND b.k > a.k WITHIN 9", "sase"),
}


def decoded(codec: Codec, entries: dict[int, bytes]) -> dict[str, list[str]]:
    return by_kind(map(codec.unpacked, entries.values()))


def whole(core: Engine) -> dict[str, list[str]]:
    """The entries that an empty log would write."""
    writer, codec = StateWriter(core.plan, core.codec, lambda operator: operator.number), core.codec
    return by_kind(codec.unpacked(codec.packed(one)) for one in writer.entries({}))


def by_position(core: Engine) -> dict[str, list[str]]:
    """The content of a snapshot, independent of the numbers of operators in a log."""
    return by_kind(core.codec.unpacked(core.snapshot())["entries"])


def by_kind(entries: Iterable[dict[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"kept": [], "waiting": [], "lanes": [], "left out": []}
    for entry in entries:
        for key, data in entry.items():
            if key != "held":
                found[key].append(repr(data))
    return {key: sorted(rows) for key, rows in found.items()}


def started(
    queries: Mapping[str, tuple[str, str]], lateness: int = 0, rules: tuple[Rule, ...] = ALL_RULES
) -> tuple[Engine, StateLog]:
    """Return an engine with some queries, and its log."""
    core = Engine(1, rules=rules)
    entries = core.keep_log()
    for stream in "ABCD":
        core.stream(stream, {"k": str, "v": int}, lateness=lateness)
    for name, (text, language) in queries.items():
        core.register(name, text, language)
        entries.hold(name, core.query(name).held)
    return core, entries


def test_what_stays_is_not_written_again() -> None:
    """Whichever m-op keeps it, and by whom ever it is shared; after a restart once."""
    codec = Codec(())
    written: dict[int, bytes] = {}
    told = []
    for again in (False, True):
        core, entries = started(QUERIES)
        if again:
            entries.restore(sorted(written.items()))
        else:
            core.push([Event("ABC"[time % 3], ("xyz"[time % 2], 0), time) for time in range(12)])
        for time in (14, 15) if again else (12, 13):
            core.push([Event("D", ("x", 0), time)])  # nobody reads it
            new, gone = entries.pop()
            told.append([list(codec.unpacked(entry)) for _, entry in new])
            written = {n: one for n, one in (written | dict(new)).items() if n not in gone}
    kinds = {mop.kind for mop in core.plan.mops if mop.instances()}
    assert kinds >= {"sequence", "window_join", "aggregate", "pattern_match"}
    assert all(one == ["lanes"] for one in (*told[1], *told[3]))


@pytest.mark.parametrize("logged", [True, False])
@pytest.mark.parametrize("name", ["next", "mean", "join", "negation", "selected"])
def test_what_several_operators_kept_that_are_one_now_is_there_once(
    name: str, logged: bool
) -> None:
    """A later release shares more: of operators, or of the rows that these keep."""
    events = [Event("AB"[time // 2 % 2], ("xyz"[time % 3], 0), time // 2 * 2) for time in range(30)]
    twice = {name: QUERIES[name], "again": QUERIES[name]}
    before, written = started(twice, 4, ())
    before.push(events[:20])
    steady, _ = started(twice, 4)
    steady.push(events[:20])
    after, entries = started(twice, 4)
    if logged:
        entries.restore(written.pop()[0])
        after.clock.now, after.clock.arrivals = before.clock.now, before.clock.arrivals
    else:
        whole = msgpack.unpackb(before.snapshot(), strict_map_key=False)
        whole["data"]["rules"] = [rule.name for rule in ALL_RULES]
        after = Engine.restore(msgpack.packb(whole))
    assert by_position(after) == by_position(steady)
    found = [list(map(repr, core.push(events[20:]))) for core in (after, steady)]
    assert found[0] == found[1] != []


PAIRS = {
    "scan": ("EVENT SEQ(A a, B b) WHERE a.k = b.k AND a.v {} b.v WITHIN 50", "sase", "<", ">"),
    "negation": (
        "EVENT SEQ(A a, !(B n), A b) WHERE a.k = b.k AND n.k = a.k AND a.v > {} WITHIN 60",
        *("sase", "0", "1"),
    ),
    "aggregate": ("SELECT k, {} AS n FROM A GROUP BY k WINDOW 60 s", "cel", "COUNT(*)", "SUM(v)"),
    "sequence": ("SELECT * FROM A NEXT{{$1.k = $2.k AND $1.v > {}}} B", "cel", "0", "1"),
}


@pytest.mark.parametrize("late", [100, 0])
@pytest.mark.parametrize("gone", ["one", "other"])
@pytest.mark.parametrize("pair", PAIRS)
def test_rows_wait_for_those_that_stay(pair: str, gone: str, late: int) -> None:
    """A row that waits for an operator that has left and one that stays is written again."""
    text, language, *constants = PAIRS[pair]
    codec = Codec(())
    queries = {
        name: (text.format(constant), language)
        for name, constant in zip(("one", "other"), constants, strict=True)
    }
    core, entries = started(queries, late)
    rows = [("A", 1, 10), ("B", 2, 20), ("A", 2, 30), ("A", 3, 31)]
    core.push([Event(stream, ("x", value), time) for stream, value, time in rows])
    written = dict(entries.pop()[0])
    core.unregister(gone)
    entries.release(gone)
    new, left = entries.pop()
    written = {number: one for number, one in (written | dict(new)).items() if number not in left}
    del queries[gone]
    again, restored = started(queries, late)
    restored.restore(sorted(written.items()))
    assert whole(core) == decoded(codec, written)
    assert by_position(again) == by_position(core)
    new, left = restored.pop()
    written = {number: one for number, one in (written | dict(new)).items() if number not in left}
    assert whole(again) == decoded(codec, written)
