"""A wait for a history ends at its time limit, also while another history is read."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import xscl
from xscl.errors import TooLong


def test_a_history_that_another_thread_reads_is_not_waited_for_too_long() -> None:
    with xscl.Engine() as engine, ThreadPoolExecutor(1) as others:
        backfills = engine.catalog.backfills
        is_running, is_over = threading.Event(), threading.Event()

        def run() -> None:
            with backfills.exclusive():
                is_running.set()
                is_over.wait()

        reading = others.submit(run)
        is_running.wait()
        try:
            with pytest.raises(TooLong):
                backfills.complete(1, time.monotonic() + 0.01)
        finally:
            is_over.set()
        reading.result()
        backfills.complete(1, time.monotonic() + 0.01)
