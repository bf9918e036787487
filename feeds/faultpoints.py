"""Points at which a process can be made to fail, so that tests can see what is left of it.

The code passes named points: `reached("spooled")`.  Nothing happens there, unless the environment
variable `XSCL_FAULT` names the point when the process starts:

    spooled:3           at the third passage the process kills itself (SIGKILL)
    spooled:3+0.002     ... two milliseconds later, in the midst of whatever comes then
    spooled:3=EIO       the third passage raises OSError(EIO), as a broken disk does
    spooled:3=TERM      at the third passage the process gets SIGTERM (or INT)

Whether there is a fault is decided once, at the import: otherwise a point is a call that does
nothing.  A kill is the process's own, so that it comes exactly there.
"""

from __future__ import annotations

import errno
import itertools
import os
import re
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Literal, TypeAlias, cast, get_args

VARIABLE = "XSCL_FAULT"

Action: TypeAlias = Literal["KILL", "TERM", "INT", "EIO"]

_FAULT = re.compile(
    r"(?P<point>\w+):(?P<passage>[1-9]\d*)(\+(?P<delay>[\d.]+))?(=(?P<action>\w+))?"
)


@dataclass(frozen=True, slots=True)
class FaultSpec:
    """A configured fault: the point, the count of passages, the delay in seconds, the action."""

    point: str
    passage: int = 1
    action: Action = "KILL"
    delay: float = 0.0

    def __str__(self) -> str:
        later = f"+{self.delay:g}" if self.delay else ""
        return f"{self.point}:{self.passage}{later}={self.action}"


def read(text: str) -> FaultSpec:
    """Return the fault that a text describes; a name alone means the first passage of the point."""
    found = _FAULT.fullmatch(text if ":" in text else f"{text}:1")
    action = found["action"] or "KILL" if found else ""
    if found is None or action not in get_args(Action):
        raise ValueError(f"{VARIABLE} is {text!r}, not like 'spooled:3', 'spooled:3=EIO'")
    delay = float(found["delay"] or 0)
    return FaultSpec(found["point"], int(found["passage"]), cast(Action, action), delay)


def armed(fault: FaultSpec) -> Callable[[str], None]:
    """Return the function that fault points call when a fault is configured; thread-safe."""
    passages = itertools.count(1)

    def reached(point: str) -> None:
        if point == fault.point and next(passages) == fault.passage:
            if fault.delay:
                threading.Timer(fault.delay, _strike, [fault.action]).start()
            else:
                _strike(fault.action)

    return reached


def _strike(action: Action) -> None:
    """Raise OSError for EIO; send this process the signal that any other action names."""
    if action == "EIO":
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    os.kill(os.getpid(), signal.Signals[f"SIG{action}"])


_NO_FAULT: Callable[[str], object] = len
"""The function at fault points when no fault is configured: a builtin, as it is called often."""

reached: Callable[[str], object] = (
    armed(read(os.environ[VARIABLE])) if os.environ.get(VARIABLE) else _NO_FAULT
)
"""Called with the name of a point where the code passes it."""


def write(file: BinaryIO, data: memoryview, point: str) -> None:
    """Write data; with a fault configured, the point is passed when half of them are written."""
    if reached is _NO_FAULT:
        file.write(data)
        return
    half = len(data) // 2
    file.write(data[:half])
    file.flush()
    reached(point)
    file.write(data[half:])
