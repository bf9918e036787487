"""Faults of the machine and its disk, which come one after another, and how each ends."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from feeds.spool import Spool
from tests.simulation import disk
from tests.simulation.bounds import exceeded
from tests.simulation.clients import Act, Part
from tests.simulation.files import CHECKPOINTED, COMMITTED, Pace
from tests.simulation.host import LostSegment
from tests.simulation.scheduler import NS
from tests.simulation.service import Listening
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory

FAULTS = 2.5
"""Faults of the machine an hour."""
TEARS = 12
"""Crashes within a commit, and within a checkpoint, after one at any moment."""


@dataclass(eq=False)
class Faults(Part):
    """Makes faults of the machine; requests may be slow while one lasts."""

    _pace: Pace
    _left: list[Callable[[], None]] = field(default_factory=list)

    def acts(self) -> Sequence[Act]:
        """Return the faults as a client."""
        return [("faults", FAULTS, self._strike)]

    def _strike(self) -> None:
        """Make a drawn fault, each kind once, end it, and wait until the service answers."""
        self._left = self._left or [
            *(self._lose_power, self._kill, self._stop, self._break_disk, self._fill_disk),
            *(self._slow_disk, self._hang_disk, self._step_clock, self._drift_clock),
            *(self._lose_segment, self._lose_segment, self._lose_power),
        ]
        fault = self._left.pop(self._draw.randrange(len(self._left)))
        self._model.counts["faults"] += 1
        self._host.journal.note(fault.__name__.strip("_"))
        self._host.begin_disturbance()
        fault()
        self._host.journal.record(exceeded(self._host, self._model))
        self._host.until("GET", "/v1/health")
        self._host.end_disturbance()

    # The process

    def _lose_power(self) -> None:
        """Cut the power now, then within commits and checkpoints of SQLite."""
        self._host.crash(self._draw.uniform(0.1, 20), power=True)
        for operation, cut in ((COMMITTED, "commits cut"), (CHECKPOINTED, "checkpoints cut")):
            for _ in range(TEARS):
                self._pace.catch(operation)
                if self._pace.caught.wait(300):
                    self._model.counts[cut] += 1
                    within = self._pace.within
                    self._host.crash(self._draw.uniform(0.1, 5), power=True, within=within)

    def _kill(self) -> None:
        self._host.crash(self._draw.uniform(0.1, 20), power=False)

    def _stop(self) -> None:
        if self._host.process is not None:
            self._host.process.stop()

    # The disk

    def _break_disk(self) -> None:
        self._fail(errno.EIO, self._draw.choice([1, 1, 2, 5]))

    def _fill_disk(self) -> None:
        self._fail(errno.ENOSPC, self._draw.choice([1, 3, 20]))

    def _fail(self, code: int, times: int) -> None:
        """Make some changes of files fail."""
        disk.fail(code, self._draw.randrange(40), times)
        time.sleep(self._draw.uniform(30, 300))
        disk.fail(0, 0, 0)

    def _slow_disk(self) -> None:
        self._take(self._draw.choice([0.05, 0.5, 3.0]), self._draw.uniform(10, 200))

    def _hang_disk(self) -> None:
        self._take(self._draw.uniform(20, 120), 1.0)

    def _take(self, slowest: float, seconds: float) -> None:
        self._pace.slowest = slowest
        time.sleep(seconds)
        self._pace.slowest = 0.0

    def _lose_segment(self) -> None:
        """Remove a segment that was acknowledged and not consumed, while no service runs."""
        for _ in range(20):
            self._model.acknowledged.clear()
            self._model.acknowledged.wait(100)
            if (listening := Listening.current) is not None:
                app = listening.service
                if app.store.spool.latest() > app.engine.ingest.segment:
                    break
        self._host.crash(self._draw.uniform(0.1, 5), power=False, harm=self._remove_segment)
        time.sleep(60)

    def _remove_segment(self, data: Path) -> None:
        peeked = data.with_name(f"{data.name}-peeked")
        shutil.copytree(data, peeked)
        with Engine(DataDirectory(peeked).database) as engine:
            consumed = engine.ingest.segment
        shutil.rmtree(peeked)
        spool = Spool(DataDirectory(data).spool, read_only=True)
        known = {
            document.name
            for stream in self._model.streams
            for document in stream.documents.values()
            if document.is_acknowledged
        }
        waiting = [
            spool.segment(number).path
            for number in spool.numbers(consumed)
            if any(one.id.rpartition(".")[2] in known for one in spool.read(number))
        ]
        if waiting:
            path = self._draw.choice(waiting)
            self._host.lost = LostSegment(path, path.read_bytes())
            path.unlink()
            self._model.counts["removed"] += 1

    # The clock

    def _step_clock(self) -> None:
        seconds = self._draw.choice([-3600, -60, -2, 2, 60, 3600, 86_400])
        self._host.scheduler.wall_offset += seconds * NS
        time.sleep(self._draw.uniform(1, 400))
        self._host.scheduler.wall_offset -= seconds * NS

    def _drift_clock(self) -> None:
        """Make the wall clock drift, and correct it at the end."""
        rate, drifted = self._draw.choice([-0.2, -0.01, 0.001, 0.05, 0.5]), 0
        for _ in range(self._draw.randrange(4, 40)):
            time.sleep(10)
            drifted += int(10 * rate * NS)
            self._host.scheduler.wall_offset += int(10 * rate * NS)
        self._host.scheduler.wall_offset -= drifted
