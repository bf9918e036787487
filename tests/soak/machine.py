"""The machine of a service: its wall clock, and a small disk that can be full or fail.

`machine.c` steps the clock, and makes changes of files fail or kill the process.  A disk is full
for real where file systems can be mounted; elsewhere its library makes all changes fail.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tests.simulation import disk

SOURCE = Path(__file__).with_name("machine.c")
SIZE = 160 << 20
"""Bytes of the small disk; 64 MiB of it are always left free."""


class Machine:
    """A directory on a small disk, and the variables of processes that run on this machine."""

    def __init__(self, root: Path, *, mounts: bool = True) -> None:
        """Mount the disk, if that is wanted and possible."""
        self.disk = root / "disk"
        self.disk.mkdir()
        self.is_mounted = mounts and _mount(self.disk)
        self._state = root / "state"
        self._seconds = 0.0
        self._set()
        self._library = disk.build(root, SOURCE)

    def close(self) -> None:
        """Remove the disk."""
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.disk)], check=True)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of a process on this machine."""
        return {
            "LD_PRELOAD": str(self._library),
            "MACHINE_STATE": str(self._state),
            "MACHINE_UNDER": str(self.disk),
        }

    def step(self, seconds: float) -> None:
        """Step the wall clock to so many seconds ahead of the real one."""
        self._seconds = seconds
        self._set()

    def strike(self, after: int, code: int = 0) -> None:
        """Make the change of a number from now on fail with an errno; 0: kill the process."""
        self._set(0, after, code)

    def fill(self) -> None:
        """Leave no room on the disk."""
        if not self.is_mounted:
            self._set(errno.ENOSPC)
            return
        with (self.disk / "filler").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 16))

    def free(self) -> None:
        """Make room on the disk."""
        if self.is_mounted:
            (self.disk / "filler").unlink()
        else:
            self._set()

    def _set(self, *failing: int) -> None:
        """Set the state of the library; the file is changed in place, because it is mapped."""
        numbers = [int(self._seconds * 1e9), *failing, 0, 0, 0][:4]
        descriptor = os.open(self._state, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            os.pwrite(descriptor, struct.pack("=4q", *numbers), 0)
        finally:
            os.close(descriptor)


def is_available() -> bool:
    """Return True if the library can be compiled and loaded here."""
    return sys.platform == "linux" and shutil.which("gcc") is not None


def _mount(place: Path) -> bool:
    """Mount a small file system in memory; return whether that is possible."""
    if shutil.which("mount") is None:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True).returncode == 0
