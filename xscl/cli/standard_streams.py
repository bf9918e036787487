"""The standard streams of a process: all three are there, and write whatever a text has.

A stream that the caller closed (`>&-`) is None in Python, and the next file that is opened gets its
descriptor.  An encoding may lack a character of a title, and its name on a command line need not be
text in any.
"""

from __future__ import annotations

import os
import sys
from typing import Any

ESCAPES = "backslashreplace"


def complete() -> None:
    """Open the null device for each stream that is closed, and escape what encodings lack."""
    while True:
        descriptor = os.open(os.devnull, os.O_RDWR)
        if descriptor > 2:
            os.close(descriptor)
            break
        os.set_inheritable(descriptor, True)  # as the other two are
    for place, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            made = os.fdopen(place, "w" if place else "r", encoding="utf-8", closefd=False)
            setattr(sys, name, made)
            setattr(sys, f"__{name}__", made)
        elif place and hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors=ESCAPES)


def flush() -> None:
    """Write what is left for standard output and error; raises the OSError of the first."""
    failures: list[OSError] = []
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            leave(stream)
            failures.append(error)
        except ValueError:  # it is closed
            continue
    if failures:
        raise failures[0]


def leave(stream: Any) -> None:
    """Redirect a stream to the null device: its reader is gone, or its disk is full."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
    finally:
        os.close(null)
