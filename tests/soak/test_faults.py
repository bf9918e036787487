"""A real service that is killed, ends, or fails at any point loses nothing and doubles nothing.

A row is a run: its faults come one after another, in one directory, while clients send documents,
have feeds polled, subscribe, listen, and receive webhooks, some of whose answers are lost.  Then
everything is there once, on every way (`tests.soak.oracle`).
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.examples import usually
from tests.soak.faults import KINDS, needs_machine
from tests.soak.machine import is_available
from tests.soak.program import SHORT, Settings, run

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


def row(*faults: str, seconds: float = 1.0, **more: Any) -> Settings:
    """Return a run of some seconds at least, with faults, and posters alone but for a load."""
    size = {"hours": seconds / 3_600, "ends_within": PATIENCE, "load": False}
    return replace(SHORT, faults=faults, **{**size, **more})


def drawn(
    point: str, times: int = TIMES, *, action: str = "", delay: float = 0.0, **more: Any
) -> Settings:
    """Return the row of one point at so many drawn passages, and moments after it."""
    draw = random.Random(f"{point}{action}")
    passages = (draw.randint(1, POINTS.get(point, 1)) for _ in range(times))
    later = (f"+{draw.uniform(0, delay):.4f}" if delay else "" for _ in range(times))
    faults = (f"{point}:{n}{t}{action}" for n, t in zip(passages, later, strict=True))
    return row(*dict.fromkeys(faults), **more)


ROWS: Mapping[str, Settings] = {
    "usual": row("before_commit:1", "sent:2", "joined:1=TERM", pace=1.0),
    "the store is made": row("before_commit:1", "before_commit:3", "kill"),
    "before the store": row(
        *("fetched:1", "spool_half:3", "spool_written:2", "spool_synced:3", "spooled:1")
    ),
    "not committed": row("batch_read:1", *NOT_COMMITTED),
    "committed": row("after_commit:6", "marked:2", "committed:1", "batch_done:2"),
    "a point fails": row("spool_synced:3=EIO", "before_commit:6=EIO"),
    "a signal within a batch": row("joined:1=TERM", "accepted:1=INT"),
    "deliveries": row("sent:1", "sent:3", "sent:2+0.002", "after_commit:5", "marked:5"),
    "checkpoints": drawn("before_commit", delay=0.03, checkpoint=1),
    "closing": drawn("closing", delay=0.03),
    "a change to a file": row(*(f"change:{n}" for n in range(1, 240, 12))),
    "a change fails": row(*(f"change:{n}=EIO" for n in range(1, 160, 8))),
    "a change within checkpoints": row(
        *(f"change:{n}{how}" for n in range(3, 120, 12) for how in ("", "=EIO")), checkpoint=1
    ),
    "spark": row(
        *("batch_read:2", "joined:2", "before_commit:9", "after_commit:9", "batch_done:2"),
        options=("--master", "local[1]"),
    ),
    "at any moment": row("kill", seconds=60.0, load=True),
    "the machine": row(*KINDS, seconds=90.0, load=True),
    "the machine, simulated": row(*KINDS, seconds=90.0, load=True, mounts=False),
    **{point: drawn(point) for point in POINTS},
    **{f"{point} fails": drawn(point, 3, action="=EIO") for point in POINTS},
}


@pytest.mark.parametrize("name", usually(ROWS, "usual"))
def test_c1_c2_c4_c14_c16_c17_all_is_there_once_after_faults(name: str) -> None:
    settings = ROWS[name]
    if name == "spark":
        pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")
    if needs_machine(settings.faults) and not is_available():
        pytest.skip("the library of the machine cannot be compiled here")
    found = run(settings)
    assert not found.wrong, str(found)
    assert all(found.faults.values())
    assert found.done["pairs that had to be delivered"] > 0


@pytest.mark.slow
def test_l1_steady_load_with_faults() -> None:
    faults = (f"{point}:{passage}" for point, passage in POINTS.items())
    found = run(row(*faults, seconds=SECONDS, load=True))
    assert not found.wrong, str(found)
    assert found.done["pairs that had to be delivered"] > 20


@pytest.mark.slow
def test_many_clients_for_half_an_hour() -> None:
    found = run(row(seconds=1_800, load=True, seed=2))
    assert not found.wrong, str(found)


@pytest.mark.slow
def test_hostile_documents_and_connections_of_one_client() -> None:
    """The bounds, at ten times of what is promised in seconds: other tests may run beside."""
    found = run(row(seconds=120, load=True, pace=1.0, every=2.0, hostile=True))
    assert not found.wrong, str(found)
