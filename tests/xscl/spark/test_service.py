"""A service with a master of Spark, as its operator starts it."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import xscl
from feeds.documents import Document
from feeds.spool import Spool
from tests.soak.measurements import descendants
from tests.xscl.commandline import answered
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer


def test_a_service_goes_on_with_executors_that_listen_on_loopback_only(
    home: DataDirectory, spark_session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the session of this process, which outlives it."""
    monkeypatch.setattr("xscl.spark.executors.end_session", lambda session: None)
    home.create()
    with xscl.Engine(home.database) as engine, Spool(home.spool) as spool:
        engine.subscribe("again", "S//a->x FOLLOWED BY{x = y, 10} S//a->y")
        engine.subscribe("next", "S//a->x NEXT{x = y} S//a->y")  # which the engine evaluates
        for first in (0, 3):
            numbers = range(first, first + 3)
            spool.append([Document("S", f"d{n}", n, b"<a>%d</a>" % (n % 4)) for n in numbers], 0)
            if not first:
                Consumer(spool, engine.ingest).run_once()
    command = ("serve", "--once", "--json", "--master", "local[2]", "--data", str(home.path))
    found = map(json.loads, answered(*command).splitlines())
    assert sorted((match["subscription"], *match["documents"]) for match in found) == [
        ("again", "d0", "d4"),
        ("again", "d1", "d5"),
        ("next", "d0", "d4"),  # d5 may have another one at its time
    ]
    assert listening(os.getpid()) == {"127.0.0.1"}


def listening(pid: int) -> set[str]:
    """Return the addresses on which a process and its descendants listen."""
    found, sockets = set[str](), set[str]()
    for one in (pid, *descendants(pid)):
        for entry in Path(f"/proc/{one}/fd").glob("*"):
            with suppress(OSError):  # it is closed meanwhile
                sockets.add(str(entry.readlink()))
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.add(_LOOPBACK.get(fields[1].partition(":")[0], line))
    return found


_LOOPBACK = dict.fromkeys(
    ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"),
    "127.0.0.1",
)
