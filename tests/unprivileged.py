"""Permissions of files that hold for root, too."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

_VERSION_3 = 0x20080522  # of the structures of capset(2)
_OF_FILES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """The first 32 capabilities, then the others."""

    _fields_ = tuple(
        (f"{name}{part}", ctypes.c_uint32)
        for part in (0, 1)
        for name in ("effective", "permitted", "inheritable")
    )


@contextmanager
def unprivileged() -> Iterator[None]:
    """Take from this thread the right of root to read and write all files, while the block runs."""
    libc, header, sets = ctypes.CDLL(None, use_errno=True), _Header(_VERSION_3, 0), _Sets()
    _call(libc.capget, header, sets)
    before = sets.effective0
    sets.effective0 = before & ~_OF_FILES
    _call(libc.capset, header, sets)
    try:
        yield
    finally:
        sets.effective0 = before
        _call(libc.capset, header, sets)


def _call(function: ctypes._NamedFuncPointer, header: _Header, sets: _Sets) -> None:
    if function(ctypes.byref(header), ctypes.byref(sets)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
