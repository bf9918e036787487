"""A service with a master of Spark, as its operator starts it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import xscl
from feeds.documents import Document
from feeds.spool import Spool
from tests.project import ROOT
from tests.soak.measurements import descendants
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer

pytest.importorskip("pyspark", reason="the extra xscl[spark] is not installed")


@pytest.mark.spark
def test_a_service_goes_on_with_executors_that_listen_on_loopback_only(tmp_path: Path) -> None:
    home = DataDirectory(tmp_path / "data")
    home.create()
    with xscl.Engine(home.database) as engine, Spool(home.spool) as spool:
        engine.subscribe("again", "S//a->x FOLLOWED BY{x = y, 10} S//a->y")
        engine.subscribe("next", "S//a->x NEXT{x = y} S//a->y")  # which the engine evaluates
        for first in (0, 3):
            numbers = range(first, first + 3)
            spool.append([Document("S", f"d{n}", n, b"<a>%d</a>" % (n % 4)) for n in numbers], 0)
            if not first:
                Consumer(spool, engine.ingest).run_once()
    command = ("-m", "xscl", "serve", "--once", "--json", "--master", "local[2]", "--data")
    heard = set[str]()
    with subprocess.Popen(
        [sys.executable, *command, home.path],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None:
            heard |= listening(process.pid)
            time.sleep(0.5)
        printed, said = process.communicate()
    assert process.returncode == 0, said
    found = map(json.loads, printed.splitlines())
    assert sorted((match["subscription"], *match["documents"]) for match in found) == [
        ("again", "d0", "d4"),
        ("again", "d1", "d5"),
        ("next", "d0", "d4"),  # d5 may have another one at its time
    ]
    assert heard == {"127.0.0.1"}


def listening(pid: int) -> set[str]:
    """Return the addresses on which a process and its descendants listen."""
    found, sockets = set[str](), set[str]()
    with suppress(OSError):  # one ends meanwhile
        for one in (pid, *descendants(pid)):
            sockets |= {str(entry.readlink()) for entry in Path(f"/proc/{one}/fd").iterdir()}
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
