"""The file channel: a line of JSON for each message, synced before it counts as delivered.

Files are in one folder of the data directory and have plain names, so that no name can refer to
another directory.  A partial line left by a crash is truncated before the next append, and its
message is delivered again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from feeds.faultpoints import write
from feeds.file_descriptors import synchronise
from xscl.delivery.endpoint import Delivered, Sender, SendFailed, SendOutcome
from xscl.delivery.message import Message

_TAIL = 1 << 16


def file_sender(path: Path) -> Sender:
    """Return the sender that appends messages to a file, durably."""

    async def send(messages: Sequence[Message]) -> SendOutcome:
        lines = b"".join(message.json() + b"\n" for message in messages)
        try:
            await asyncio.to_thread(append, path, lines)
        except OSError as error:
            return SendFailed(f"the file cannot be written: {error.strerror}")
        return Delivered()

    return Sender(send, str(path), most=100)


def append(path: Path, lines: bytes) -> None:
    """Append whole lines to a file and sync it, and its directory if the file is new."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = not path.exists()
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "r+b") as file:
        file.seek(_whole(file.fileno()))
        file.truncate()
        write(file, memoryview(lines), "half_appended")
        file.flush()
        os.fsync(file.fileno())
    if new:
        synchronise(path.parent)


def _whole(descriptor: int) -> int:
    """Return the offset after the last complete line of a file."""
    end = os.fstat(descriptor).st_size
    while end:
        begin = max(0, end - _TAIL)
        at = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if at >= 0:
            return begin + at + 1
        end = begin
    return 0
