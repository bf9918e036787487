"""Points of failure: what the variable says, and that without it nothing happens."""

import io
import os
import signal
from pathlib import Path

import pytest

from feeds.faultpoints import VARIABLE, FaultSpec, armed, reached, read, write
from tests.project import python


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("spooled", FaultSpec("spooled")),
        ("spooled:3", FaultSpec("spooled", 3)),
        ("spooled:3=EIO", FaultSpec("spooled", 3, "EIO")),
        ("spooled:1+0.5=TERM", FaultSpec("spooled", 1, "TERM", 0.5)),
    ],
)
def test_a_fault_is_read_and_written(text: str, fault: FaultSpec) -> None:
    assert read(text) == fault
    assert read(str(fault)) == fault


@pytest.mark.parametrize("text", ["", "a b", "a:0", "a:x", "a:1=STOP", "a:1=", ":1"])
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=VARIABLE):
        read(text)


def test_a_fault_strikes_at_its_passage_and_once() -> None:
    strike = armed(FaultSpec("here", 2, "EIO"))
    strike("here")
    strike("there")
    with pytest.raises(OSError, match="Input/output error"):
        strike("here")
    strike("here")


def test_without_a_fault_points_and_writing_do_nothing_else() -> None:
    assert VARIABLE not in os.environ
    reached("anything")
    file = io.BytesIO()
    write(file, memoryview(b"abc"), "half")
    assert file.getvalue() == b"abc"


@pytest.mark.parametrize(
    ("fault", "code", "left"),
    [
        ("half", -signal.SIGKILL, b"ab"),
        ("half=TERM", -signal.SIGTERM, b"ab"),
        ("half:2", 0, b"abcde"),
        ("half:1+0.01=EIO", 0, b"abcde"),
        ("half:1+0.01=TERM", -signal.SIGTERM, b"abcde"),
    ],
)
def test_a_process_dies_between_the_halves_of_what_it_writes(
    fault: str, code: int, left: bytes, tmp_path: Path
) -> None:
    """Or later, however slow it is: a delayed error is another thread's, a signal waits."""
    program = (
        "import signal, sys, threading; from feeds.faultpoints import write\n"
        "if '+' in sys.argv[2]:\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "with open(sys.argv[1], 'wb', buffering=0) as file:\n"
        "    write(file, memoryview(b'abcde'), 'half')\n"
        "signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])\n"
        "[thread.join() for thread in threading.enumerate()[1:]]"
    )
    path = tmp_path / "written"
    fault = fault.replace("half=", "half:1=")
    done = python("-S", "-c", program, path, fault, **{VARIABLE: fault})
    assert (done.returncode, path.read_bytes()) == (code, left)
