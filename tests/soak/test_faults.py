"""A real service that is killed, ends, or fails at any point loses nothing and doubles nothing.

A row is a run: its faults come one after another, in one directory, while clients send documents,
have feeds polled, subscribe, listen, and receive webhooks, some of whose answers are lost.  Then
everything is there once, on every way (`tests.soak.oracle`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from tests.examples import usually
from tests.soak.faults import KINDS, needs_machine
from tests.soak.machine import is_available
from tests.soak.program import SHORT, run

PATIENCE = 50.0
"""Seconds for SIGTERM here, ten times what is promised: other tests run beside."""
SECONDS = float(os.environ.get("XSCL_SOAK", "90"))
"""`XSCL_SOAK=3600` runs the steady load with faults for an hour."""
TIMES = 20
POINTS = {
    **{"fetched": 4, "spool_half": 8, "spool_written": 8, "spool_synced": 8, "spooled": 4},
    **{"batch_read": 6, "accepted": 6, "joined": 6, "stored": 6, "before_commit": 16},
    **{"after_commit": 16, "marked": 16, "committed": 6, "batch_done": 6, "sent": 6},
}
"""Points, and up to which passage they strike."""
NOT_COMMITTED = ("accepted:1", "joined:2", "stored:1", "before_commit:6")


@dataclass(frozen=True)
class Row:
    """The faults of a run, its seconds at least, and how its service is started."""

    faults: tuple[str, ...]
    seconds: float = 1.0
    load: bool = False
    checkpoint: int | None = None
    options: tuple[str, ...] = ("--no-spark",)
    mounts: bool = True
    pace: float = 0.0


def drawn(point: str, times: int = TIMES, *, action: str = "", delay: float = 0.0) -> Row:
    """Return the row of one point at so many drawn passages, and moments after it."""
    draw = random.Random(f"{point}{action}")
    passages = (draw.randint(1, POINTS.get(point, 1)) for _ in range(times))
    later = (f"+{draw.uniform(0, delay):.4f}" if delay else "" for _ in range(times))
    faults = (f"{point}:{n}{t}{action}" for n, t in zip(passages, later, strict=True))
    return Row(tuple(dict.fromkeys(faults)))


ROWS: Mapping[str, Row] = {
    "usual": Row(("before_commit:1", "sent:2", "joined:1=TERM"), pace=1.0),
    "the store is made": Row(("before_commit:1", "before_commit:3", "kill")),
    "before the store": Row(
        ("fetched:1", "spool_half:3", "spool_written:2", "spool_synced:3", "spooled:1")
    ),
    "not committed": Row(("batch_read:1", *NOT_COMMITTED)),
    "committed": Row(("after_commit:6", "marked:2", "committed:1", "batch_done:2")),
    "a point fails": Row(("spool_synced:3=EIO", "before_commit:6=EIO")),
    "a signal within a batch": Row(("joined:1=TERM", "accepted:1=INT")),
    "deliveries": Row(("sent:1", "sent:3", "sent:2+0.002", "after_commit:5", "marked:5")),
    "checkpoints": replace(drawn("before_commit", delay=0.03), checkpoint=1),
    "closing": drawn("closing", delay=0.03),
    "a change to a file": Row(tuple(f"change:{n}" for n in range(1, 240, 12))),
    "a change fails": Row(tuple(f"change:{n}=EIO" for n in range(1, 160, 8))),
    "a change within checkpoints": Row(
        tuple(f"change:{n}{how}" for n in range(3, 120, 12) for how in ("", "=EIO")), checkpoint=1
    ),
    "spark": Row(
        ("batch_read:2", "joined:2", "before_commit:9", "after_commit:9", "batch_done:2"),
        options=("--master", "local[1]"),
    ),
    "at any moment": Row(("kill",), 60.0, load=True),
    "the machine": Row(KINDS, 90.0, load=True),
    "the machine, simulated": Row(KINDS, 90.0, load=True, mounts=False),
    **{point: drawn(point) for point in POINTS},
    **{f"{point} fails": drawn(point, 3, action="=EIO") for point in POINTS},
}


@pytest.mark.parametrize("name", usually(ROWS, "usual"))
def test_c1_c2_c4_c14_c16_c17_all_is_there_once_after_faults(name: str) -> None:
    row = ROWS[name]
    if name == "spark":
        pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    if needs_machine(row.faults) and not is_available():
        pytest.skip("the library of the machine cannot be compiled here")
    settings = replace(
        SHORT,
        hours=row.seconds / 3_600,
        faults=row.faults,
        load=row.load,
        pace=row.pace,
        mounts=row.mounts,
        checkpoint=row.checkpoint,
        options=row.options,
        ends_within=PATIENCE,
    )
    found = run(settings)
    assert not found.wrong, str(found)
    assert all(found.faults.values())
    assert found.done["pairs that had to be delivered"] > 0


@pytest.mark.slow
def test_l1_steady_load_with_faults() -> None:
    faults = tuple(f"{point}:{passage}" for point, passage in POINTS.items())
    found = run(replace(SHORT, hours=SECONDS / 3_600, faults=faults, ends_within=PATIENCE))
    assert not found.wrong, str(found)
    assert found.done["pairs that had to be delivered"] > 20


@pytest.mark.slow
def test_many_clients_for_half_an_hour() -> None:
    found = run(replace(SHORT, hours=0.5, seed=2, ends_within=PATIENCE))
    assert not found.wrong, str(found)


@pytest.mark.slow
def test_hostile_documents_and_connections_of_one_client() -> None:
    """The bounds, at ten times of what is promised in seconds: other tests may run beside."""
    found = run(
        replace(SHORT, hours=1 / 30, pace=1.0, every=2.0, hostile=True, ends_within=PATIENCE)
    )
    assert not found.wrong, str(found)
