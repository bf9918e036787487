"""A service that is killed while it takes what a hub sends: nothing acknowledged is lost."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from feeds.faultpoints import VARIABLE, FaultSpec
from feeds.spool import Spool
from tests.hub import PUBLIC, Hub, hub_running, rss
from tests.kills.processes import ROOT
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.slow

POINTS = (
    FaultSpec("pushed", 1),
    FaultSpec("push_spooled", 1),
    FaultSpec("push_spooled", 2),
    FaultSpec("push_spooled", 1, delay=0.002),
)
"""Before content goes to the spool, and before it is recorded and acknowledged."""


def command(data: Path, *arguments: str, fault: FaultSpec | None = None) -> subprocess.Popen[str]:
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    if fault is not None:
        variables[VARIABLE] = str(fault)
    return subprocess.Popen(
        [sys.executable, "-m", "xscl", *arguments, "--data", str(data)],
        env=variables,
        text=True,
        stderr=subprocess.PIPE,
    )


@contextmanager
def served(data: Path, hub: Hub, fault: FaultSpec | None = None) -> Iterator[None]:
    """Run `xscl serve` while the block runs; it is killed at a fault, or at the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    hub.service = f"http://127.0.0.1:{port}"
    allowed = hub.address.removeprefix("http://")
    options = ("--port", str(port), "--public-url", PUBLIC, "--allow-address", allowed)
    with command(data, "serve", "--no-spark", *options, fault=fault) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "the page is at" in line:
                    break
            yield
        finally:
            process.kill()
            assert process.wait(PATIENCE) == -signal.SIGKILL


def sent(hub: Hub, title: str) -> bool:
    """Send an item; return whether it was acknowledged."""
    try:
        return hub.publish(title).status_code == 202
    except httpx.HTTPError:
        return False


def titles(data: Path) -> list[str]:
    spool = Spool(data / "spool", read_only=True)
    documents = [one for number in spool.numbers(0) for one in spool.read(number)]
    return [re.findall(r"<title>(.*)</title>", one.xml.decode())[0] for one in documents]


@pytest.mark.parametrize("fault", POINTS, ids=str)
def test_what_was_acknowledged_is_kept_and_nothing_is_there_twice(
    tmp_path: Path, fault: FaultSpec
) -> None:
    data = tmp_path / "data"
    with hub_running() as hub:
        with command(data, "feeds", "add", hub.feed) as adding:
            assert adding.wait(PATIENCE) in (0, 2)
        acknowledged = ["one"]
        with served(data, hub, fault):
            eventually(lambda: hub.confirmed)
            acknowledged += [title for title in ("two", "three") if sent(hub, title)]
        assert set(acknowledged) <= set(titles(data))
        with served(data, hub):
            again = [title for title in ("two", "three") if title not in acknowledged]
            assert all(hub.send(rss(title)).status_code == 202 for title in again)
            assert sent(hub, "four")
    assert sorted(titles(data)) == ["four", "one", "three", "two"]
