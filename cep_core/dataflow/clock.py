"""Time: the clock, the epochs, and what waits for them.

Rows of base streams pass the monotone m-ops (select, project, union, window join) as they arrive.
Before an ordered m-op they wait in a *lane* until their epoch is closed: when the clock M, the
largest time that has arrived, is more than the lane's lateness beyond it.  A query's lane has the
largest lateness of the streams that it reads.  Epochs are closed at the very event that raises the
clock, before it is handed on, so the output does not depend on how the input was cut into batches.
A right row with no earlier epoch open does not wait if it concerns no active state.

Within an epoch rows are emitted at once.  A right row meets only instances that ended before it
began, so instances may be installed and deleted when the epoch ends (the pending lists of Hong
2009, section 4.4.3).  M-ops that need the whole epoch (aggregates) flush before that, lowest first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, cycle
from operator import attrgetter
from time import perf_counter
from typing import Any, Protocol, TypeAlias

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of, without_slots
from cep_core.dataflow.journal import Unwritten
from cep_core.events import Row

BEGINNING = -(1 << 62)
END = 1 << 62
_LAST_SECOND = 253_402_300_799  # since 1970: the end of the year 9999
SAMPLED = 8
"""One epoch in `SAMPLED` is timed, for all of them: a reading costs 2 % of the cheapest row."""
WaitingRow: TypeAlias = tuple[Port, Row, Members]


def farthest(ticks_per_second: int) -> int:
    """Return the largest distance of an event's time from the origin, in ticks.

    It is the distance of the year 9999 from 1970, or `END` if ticks are finer.  A time beyond has
    another unit or is a placeholder for infinity, and would make all later events late.
    """
    return min(END, (_LAST_SECOND + 1) * ticks_per_second) - 1


class Counted(Protocol):
    """An object that sums up the time that is spent in it, in seconds."""

    seconds: float


class EpochMOp(Counted, Protocol):
    """An m-op in a lane, called in the epochs for which it asks."""

    depth: int

    def flush(self, now: int) -> None:
        """Emit the results that need all rows of the epoch ``now``, or that are due then."""

    def finish(self, now: int) -> None:
        """Delete and install instances at the end of an epoch."""

    def evict(self, watermark: int) -> None:
        """Drop instances that no row from the watermark on can meet."""

    def awaiting(self, time: int) -> Iterator[Any]:
        """Yield the operators that have something to emit or to drop at the deadline `time`."""


class BatchStage(Counted, Protocol):
    """An m-op, or several together, that consumes rows by batches."""

    depth: int

    def run(self) -> None:
        """Consume the queued rows, and emit the results."""


class Batch:
    """The stages that have something to do: they run once for a batch, the lower ones first.

    A stage that emits a row sets the clock to M(n), where n is the newest event of the row: the row
    is as late as it would be alone.  Afterwards the clock is reset.  Stages run after a push has
    been consumed.  With ``prompt`` they run within an epoch, too: some ordered m-op reads, in that
    epoch, rows that stages make of other ordered m-ops' rows.
    """

    def __init__(self, clock: Clock) -> None:
        self.prompt = False
        self._clock = clock
        self._touched: dict[BatchStage, None] = {}

    def __bool__(self) -> bool:
        return bool(self._touched)

    def touch(self, stage: BatchStage) -> None:
        """Schedule a stage to run in `run`, once however often it is touched."""
        self._touched[stage] = None

    def run(self, below: float = math.inf) -> None:
        """Run the stages, or those below a depth, until none has anything to do."""
        now = self._clock.now
        try:
            while self._touched:
                stage = min(self._touched, key=attrgetter("depth"))
                if stage.depth >= below:
                    return
                del self._touched[stage]
                self._clock.now = now
                began = perf_counter()
                stage.run()
                stage.seconds += perf_counter() - began
        finally:
            self._clock.now = now


class Clock:
    """M, the largest time that has arrived, and the number of the next arrival."""

    __slots__ = ("arrivals", "bound_to", "closing", "now", "replaying", "turn")

    def __init__(self) -> None:
        self.now = BEGINNING
        self.closing: int | None = (
            None  # while an epoch is processed: the arrival time of rows emitted in it; else None
        )
        self.arrivals = 0
        self.turn = 0  # the rank of the current event among those that have arrived together
        self.bound_to: int | None = None  # `bound_to` of `wanted` for queries registered now
        self.replaying = False  # while rows of open epochs are emitted again, for new ports only


def _charged(parts: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield the tuples; add the time until the next is asked for to `seconds` of their first items.

    Only one epoch of `SAMPLED` is measured, so that time is multiplied by `SAMPLED`.
    """
    for part in parts:
        began = perf_counter()
        yield part
        part[0].seconds += SAMPLED * (perf_counter() - began)


class Lane:
    """The epochs of all ordered m-ops with one lateness."""

    def __init__(
        self,
        lateness: int,
        clock: Clock,
        batch: Batch,
        late: Callable[[Row, int, object], None],
        journal: Unwritten,
    ) -> None:
        self.lateness = lateness
        self.journal = journal
        self.clock = clock
        self._batch = batch
        self.closed = BEGINNING  # epochs before it are closed
        self.due = END  # nothing waits for an earlier time
        self.changes = 0  # how often rows have come to wait, or epochs have passed
        self.uses = 0  # the number of operators and queries in the lane
        self.now: int | None = None  # the epoch that is being processed
        self.fresh: set[tuple[Port, int]] | None = None  # during a replay: slots that get rows
        # (port, slot) that the current registration has connected; None: there is none
        self.connected: list[tuple[Port, int]] | None = None
        self._late = late
        self._rows: dict[int, list[WaitingRow]] = {}
        self._epochs: list[int] = []
        self._touched: dict[EpochMOp, None] = {}
        self._barriers: list[tuple[int, int, EpochMOp]] = []
        self._evictions: list[tuple[int, int, EpochMOp]] = []
        self._timers: list[tuple[int, int, EpochMOp]] = []
        self._serial = count()  # breaks ties in the heaps by order of entry
        self._samples = cycle([True, *[False] * (SAMPLED - 1)])  # whether an epoch is timed

    # -- what m-ops ask for ----------------------------------------------------------------

    def before(self, channel: Channel, port: Port) -> Port:
        """Return the port to connect with ``channel`` in place of ``port``.

        For a monotone channel it is one whose rows wait in the lane; for an ordered one it is
        ``port``.
        """
        if channel.ordered:
            return port
        return LanePort(self, port)

    def touch(self, mop: EpochMOp) -> None:
        """Schedule an m-op's `finish` at the end of this epoch."""
        self._touched[mop] = None

    def flush_later(self, mop: EpochMOp) -> None:
        """Schedule an m-op's `flush` in this epoch."""
        heappush(self._barriers, (mop.depth, next(self._serial), mop))

    def evict_at(self, time: int, mop: EpochMOp) -> None:
        """Schedule an m-op's `evict` for when all epochs up to a time are closed."""
        heappush(self._evictions, (time, next(self._serial), mop))
        if time < self.due:
            self.due = time

    def flush_at(self, deadline: int, mop: EpochMOp) -> None:
        """Schedule an m-op's `flush` at a deadline, which is an epoch even without rows."""
        if deadline == self.now:
            self.flush_later(mop)
            return
        heappush(self._timers, (deadline, next(self._serial), mop))
        if deadline < self.due:
            self.due = deadline

    # -- rows ------------------------------------------------------------------------------

    def wait(self, port: Port, row: Row, members: Members) -> None:
        """Keep a row until its epoch; pass on one of the current epoch, report a late one.

        If all epochs before it are closed, a row that does not concern the port is dropped.
        """
        time = row[1]
        if time == self.now:
            port.receive(row, members)
            return
        closing = self.clock.closing
        watermark = (self.clock.now if closing is None else closing) - self.lateness
        if watermark < self.closed:
            watermark = self.closed
        if time < watermark:
            self._late(row, watermark, port.mop)
        # Once all epochs before its own are closed, the row can meet the active states of now only:
        # no other row can become an instance before it.
        elif time > self.closed or port.concerned is None or port.concerned(row):
            self.queue(port, row, members)

    def queue(self, port: Port, row: Row, members: Members) -> None:
        """Keep a row until its epoch, which is not closed."""
        self.changes += 1
        waiting = (port, row, members)
        self.journal.keep(self, waiting)
        time = row[1]
        others = self._rows.get(time)
        if others is None:
            self._rows[time] = [waiting]
            heappush(self._epochs, time)
            if time < self.due:
                self.due = time
        else:
            others.append(waiting)

    def close(self, watermark: int) -> None:
        """Process all epochs before the watermark, in order."""
        epochs, timers, evictions = self._epochs, self._timers, self._evictions
        limit = watermark if watermark < END else END
        while True:  # inlines `next_epoch`, which would cost a call for each event
            due = epochs[0] if epochs else END
            if timers and timers[0][0] < due:
                due = timers[0][0]
            if due >= limit:
                break
            self._process(due)
        if watermark > self.closed:
            self.closed = watermark
        while evictions and evictions[0][0] < self.closed:
            self.changes += 1
            heappop(evictions)[2].evict(self.closed)
        if evictions and evictions[0][0] < due:
            due = evictions[0][0]
        self.due = due

    def pass_to(self, watermark: int) -> None:
        """Advance the watermark over epochs without rows and timers."""
        if watermark > self.closed:
            self.closed = watermark

    def drain(self, until: int = END, rows_until: int = END) -> None:
        """Process all epochs and timers up to `until`; rows of these epochs are late from then on.

        Epochs after `until` are processed up to `rows_until`, but none from the next timer on.
        """
        while (time := self.next_epoch()) < END:
            is_awaited = bool(self._timers) and self._timers[0][0] <= time
            if time > until and (is_awaited or time > rows_until):
                break
            self._process(time)
            self.closed = time + 1
        self.close(self.closed)

    def next_epoch(self) -> int:
        """Return the first time that rows or timers wait for, `END` if nothing waits."""
        row = self._epochs[0] if self._epochs else END
        timer = self._timers[0][0] if self._timers else END
        return min(row, timer)

    def _process(self, time: int) -> None:
        """Process an epoch; a part that fails does not prevent the others.

        So no m-op is left in the middle of an epoch, and the engine goes on after it.
        """
        self.changes += 1
        self.now = self.closed = time
        is_timed = next(self._samples)  # an epoch that is not timed reads no clock
        self.clock.closing = time + self.lateness
        barriers, touched, batch = self._barriers, self._touched, self._batch
        faults: list[Exception] = []
        try:
            while self._timers and self._timers[0][0] <= time:
                self.flush_later(heappop(self._timers)[2])
            rows = self._rows.pop(time, None)
            if rows is not None:  # the heap `_epochs` has this time first
                heappop(self._epochs)
                self.journal.drop(rows)
                for port, row, members in _charged(rows) if is_timed else rows:
                    try:
                        port.receive(row, members)
                    except Exception as fault:  # raised after all rows of the epoch
                        faults.append(fault)
            while barriers or touched or (batch.prompt and batch):
                try:
                    if batch.prompt:
                        batch.run()
                    if barriers:  # the lowest m-op first; one that fails is not called again
                        mop = heappop(barriers)[2]
                        end = mop.flush
                    elif touched:
                        mop = next(iter(touched))
                        del touched[mop]
                        end = mop.finish
                    else:
                        continue
                    if is_timed:
                        for _ in _charged(((mop,),)):
                            end(time)
                    else:
                        end(time)
                except Exception as fault:  # raised after the other m-ops have ended the epoch
                    faults.append(fault)
        finally:
            self.now = self.clock.closing = None
        if faults:
            raise faults[0]

    # -- the plan changes; snapshots -------------------------------------------------------

    def forget(self, port: Port, slot: int) -> None:
        """Remove a slot from the memberships of the rows that wait for a port."""
        for time, rows in list(self._rows.items()):
            kept: list[WaitingRow] = []
            for waiting in rows:
                members = without_slots(waiting[2], (slot,)) if waiting[0] is port else waiting[2]
                if members == waiting[2]:
                    kept.append(waiting)
                    continue
                self.journal.drop((waiting,))
                if members is not None:
                    kept.append((waiting[0], waiting[1], members))
                    self.journal.keep(self, kept[-1])
            self._rows[time] = kept

    def drop(self, mop: object) -> None:
        """Cancel the evictions and timers of a removed m-op."""
        self._evictions = [entry for entry in self._evictions if entry[2] is not mop]
        self._timers = [entry for entry in self._timers if entry[2] is not mop]
        heapify(self._evictions)
        heapify(self._timers)

    def waiting(self) -> Iterator[WaitingRow]:
        """Yield the rows that wait, by time and arrival."""
        for time in sorted(self._rows):
            yield from self._rows[time]

    def timers(self) -> Iterator[tuple[int, EpochMOp]]:
        """Yield the timers with their times, in no order."""
        for time, _, mop in self._timers:
            yield time, mop

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))


class LanePort(Port):
    """A port for a monotone channel; its rows wait in the lane for the port ``behind`` it."""

    __slots__ = ("_lane", "behind")

    def __init__(self, lane: Lane, behind: Port) -> None:
        super().__init__(behind.mop, self.hold)
        self._lane = lane
        self.behind = behind

    def hold(self, row: Row, members: Members) -> None:
        """Queue a row for its epoch; in a replay only for slots in the lane's `fresh`."""
        lane = self._lane
        if lane.fresh is None:
            lane.wait(self.behind, row, members)
            return
        slots = [slot for slot in slots_of(members) if (self, slot) in lane.fresh]
        if slots and row[1] >= lane.closed:
            lane.wait(self.behind, row, members_of(slots))
