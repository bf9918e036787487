"""A seeded scheduler of threads in virtual time: one thread runs at a time.

A task is a real thread that waits for its baton, a real lock, until the scheduler hands it over.
So the scheduler's state needs no lock: only the running task touches it.

    running task ── switch() ──▶ a runnable task is drawn ──▶ its baton is released
                 ── block() ──▶ the same, without the caller, until `wake` or its deadline

Virtual time stands still while any task can run.  If none can, it jumps to the earliest deadline.
Equal seeds give equal schedules, as long as what the tasks do depends on nothing else.
"""

from __future__ import annotations

import _thread
import random
import sys
import traceback
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

NS = 1_000_000_000
_SHORTEST = 1_000
"""Nanoseconds of the shortest wait: a loop whose timer is due by a rounding error must end."""


class Deadlock(Exception):
    """No task can run, and none has a deadline."""


class Killed(BaseException):
    """Ends a task whose process has crashed; no code of the product may catch it."""


@dataclass(eq=False, slots=True)
class Task:
    """A thread of the simulation; `group` is the simulated process that it belongs to."""

    number: int
    name: str
    group: int
    baton: _thread.LockType
    deadline: int | None = None
    blocked: bool = False
    timed_out: bool = False
    killed: bool = False
    ended: bool = False
    waiting_for: str = ""
    ident: int = 0


@dataclass
class Scheduler:
    """The tasks of a simulation, and its virtual clock in nanoseconds.

    `keep` is the probability that the running task goes on at a scheduling point, which makes long
    runs of one task as likely as changes at every point.  `slowest` bounds the virtual time that a
    task needs between two scheduling points, in nanoseconds.  At one point of `stalls` a task is
    suspended for up to `longest` seconds, which widens the windows of races.
    """

    seed: int
    keep: float = 0.7
    slowest: int = 20_000
    stalls: int = 500
    longest: float = 1.0
    now: int = 0
    wall_offset: int = 1_767_225_600 * NS  # 2026-01-01
    steps: int = 0
    stalled: float = 0.0  # seconds, of all tasks
    trace: int = 0
    tasks: dict[int, Task] = field(default_factory=dict)
    group: int = 0
    random: random.Random = field(init=False)
    _current: Task = field(init=False)
    _made: int = 0
    _failure: BaseException | None = None

    def __post_init__(self) -> None:
        """Make the calling thread the first task."""
        self.random = random.Random(self.seed)
        self._current = self._add("main")

    @property
    def current(self) -> Task:
        """Return the running task."""
        return self._current

    def is_task(self) -> bool:
        """Return True if the calling thread is the running task.

        False in threads of libraries, which the scheduler does not know.
        """
        return self._current.ident == _thread.get_ident()

    def spawn(self, name: str, work: Callable[[], None], group: int | None = None) -> Task:
        """Start a task, in the group of the running one by default; it runs when it is drawn."""
        task = self._add(name)
        task.group = self.group if group is None else group
        task.ident = 0

        def run() -> None:
            task.ident = _thread.get_ident()
            task.baton.acquire()
            try:
                if not task.killed:
                    work()
            except Killed:
                pass  # the end of a task whose process has crashed
            finally:
                self._end(task)

        _thread.start_new_thread(run, ())
        return task

    def switch(self, point: str) -> None:
        """Yield to a drawn task, or continue this one; raises Killed in a crashed process."""
        task = self._current
        self.steps += 1
        self.now += self.random.randrange(self.slowest)
        self.trace = zlib.crc32(f"{task.number} {point}".encode(), self.trace)
        if task.number > 1 and self.random.random() * self.stalls < 1:
            seconds = self.random.random() * self.longest
            self.stalled += seconds
            self.block(f"stall at {point}", seconds)
        elif self.random.random() >= self.keep:
            self._hand_over(self._next())
        self._check(task)

    def block(self, point: str, seconds: float | None = None) -> bool:
        """Stop until `wake` or for some virtual seconds; return False after a timeout."""
        task = self._current
        self.steps += 1
        self.trace = zlib.crc32(f"{task.number} {point} blocks".encode(), self.trace)
        task.blocked, task.timed_out, task.waiting_for = True, False, point
        task.deadline = None if seconds is None else self.now + max(_SHORTEST, int(seconds * NS))
        self._hand_over(self._next())
        task.waiting_for = ""
        self._check(task)
        return not task.timed_out

    def wake(self, task: Task) -> None:
        """Make a blocked task runnable."""
        if task.blocked:
            task.blocked, task.deadline = False, None

    def kill(self, group: int) -> None:
        """Crash a simulated process: each of its tasks ends at its next scheduling point."""
        for task in self.tasks.values():
            if task.group == group:
                task.killed = True
                self.wake(task)

    def alive(self, group: int) -> list[Task]:
        """Return the tasks of a process that have not ended."""
        return [task for task in self.tasks.values() if task.group == group]

    def _add(self, name: str) -> Task:
        self._made += 1
        baton = _thread.allocate_lock()
        baton.acquire()
        task = Task(self._made, name, self.group, baton, ident=_thread.get_ident())
        self.tasks[task.number] = task
        return task

    def _next(self) -> Task:
        """Draw a runnable task; without one, advance the clock to the earliest deadline."""
        runnable = [task for task in self.tasks.values() if not task.blocked]
        if not runnable:
            waiting = [task for task in self.tasks.values() if task.deadline is not None]
            if not waiting:
                return self._fail(Deadlock(self.describe()))
            first = min(waiting, key=lambda task: (task.deadline, task.number))
            assert first.deadline is not None
            self.now = max(self.now, first.deadline)
            first.blocked, first.deadline, first.timed_out = False, None, True
            runnable = [first]
        else:
            self._expire()
            runnable = [task for task in self.tasks.values() if not task.blocked]
        return runnable[self.random.randrange(len(runnable))]

    def _expire(self) -> None:
        """Make tasks runnable whose deadline has passed while others ran."""
        for task in self.tasks.values():
            if task.deadline is not None and task.deadline <= self.now:
                task.blocked, task.deadline, task.timed_out = False, None, True

    def _hand_over(self, task: Task) -> None:
        before = self._current
        if task is before:
            return
        self._current = task
        self.group = task.group
        task.baton.release()
        if not before.ended:
            before.baton.acquire()

    def _end(self, task: Task) -> None:
        task.ended = True
        del self.tasks[task.number]
        self._hand_over(self._next())

    def _fail(self, failure: BaseException) -> Task:
        """Return the first task, which raises the failure."""
        self._failure = failure
        first = min(self.tasks.values(), key=lambda task: task.number)
        first.blocked, first.deadline = False, None
        return first

    def _check(self, task: Task) -> None:
        """Raise what ends the running task: its process has crashed, or the simulation fails."""
        if self._failure is not None:
            raise self._failure
        if task.killed:
            raise Killed

    def describe(self) -> str:
        """Return the tasks, what they wait for, and where they stand in the code."""
        frames = sys._current_frames()
        lines = [f"at {self.now / NS:.6f} s, after {self.steps} steps:"]
        for task in self.tasks.values():
            until = "" if task.deadline is None else f" until {task.deadline / NS:.3f} s"
            lines.append(f"  {task.number} {task.name}: {task.waiting_for or 'runnable'}{until}")
            if (frame := frames.get(task.ident)) is not None:
                for place in traceback.extract_stack(frame)[-6:-2]:
                    lines.append(f"      {place.filename}:{place.lineno} {place.name}")
        return "\n".join(lines)
