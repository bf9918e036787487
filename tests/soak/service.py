"""`xscl serve` by a faster clock: `python -m tests.soak.service CLOCK serve ...`.

The clock of arrivals is the one seam: it stamps documents, polls, beats and retries.  Everything
else is the service as it is installed.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import xscl.server.serve
from tests.soak import memory
from tests.soak.fast_clock import FastClock
from xscl.cli import main
from xscl.polling.arrival_clock import ArrivalClock


def run() -> None:
    """Run a command of xscl by the clock of the first argument."""
    clock = FastClock.read(sys.argv.pop(1))
    if memory.VARIABLE in os.environ:
        memory.keep_writing(Path(os.environ[memory.VARIABLE]))
    vars(xscl.server.serve)["ArrivalClock"] = partial(ArrivalClock, clock, clock)
    main()


if __name__ == "__main__":
    run()
