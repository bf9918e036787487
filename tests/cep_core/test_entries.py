"""Entries as they are taken say what a whole snapshot says, whatever m-op keeps it."""

from __future__ import annotations

from cep_core import Engine, Event
from cep_core.entries import Entries, Lasting
from cep_core.journal import Journal
from cep_core.snapshot import Codec, state_of

QUERIES = {
    "next": ("SELECT * FROM A NEXT{$1.k = $2.k} B", "cel"),
    "join": ("SELECT * FROM A JOIN{$1.k = $2.k, 6 s} B", "cel"),
    "mean": ("SELECT k, COUNT(*) AS n FROM A GROUP BY k WINDOW 6 s", "cel"),
    "negation": ("EVENT SEQ(A a, B b, !C c) WHERE [k] WITHIN 6", "sase"),
    "runs": ("EVENT SEQ(A a, B+ b[]) WHERE skip_till_next_match(a, b[]) {[k]} WITHIN 9", "sase"),
}


def decoded(codec: Codec, entries: dict[int, bytes]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"kept": [], "waiting": [], "lanes": []}
    for entry in entries.values():
        for key, rows in codec.unpacked(entry).items():
            if key != "held":
                found[key] += map(repr, rows)
    return {key: sorted(rows) for key, rows in found.items()}


def test_entries_are_the_whole_for_every_kind_of_operator() -> None:
    journal, codec = Journal(), Codec(())
    core = Engine(1, journal=journal)
    for stream in "ABC":
        core.stream(stream, {"k": str}, lateness=2 * (stream == "C"))
    entries, written = Entries(core.plan, journal, codec), dict[int, bytes]()
    for place, (name, (text, language)) in enumerate(QUERIES.items()):
        core.register(name, text, language)
        entries.hold(name, core.query(name).held)
        if place == 1:
            core.register("again", text, language)
            entries.hold("again", core.query("again").held)
    most = 0
    for time in range(40):
        if time == 25:
            entries.release("join")
            core.unregister("join")
        core.push([Event("ABCAB"[time % 5], ("xyz"[time % 3],), time)])
        new, gone = entries.take()
        for number in gone:
            written.pop(number, None)
        written.update(new)
        whole = state_of(core.plan, Lasting(core.plan, {}), codec)
        assert decoded(codec, written) == {k: sorted(map(repr, v)) for k, v in whole.items()}
        most = max(most, len(new))
    kinds = {mop.kind for mop in core.plan.mops if mop.instances()}
    assert kinds >= {"sequence", "window_join", "aggregate", "sequence_scan", "negation"}
    assert most < len(written)
