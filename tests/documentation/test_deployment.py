"""The files of deploy/: linted, and compared with the program.  Nothing is built or started."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from typer.main import get_group

from tests.project import ROOT
from tests.xscl.service.conftest import eventually, serving
from xscl.cli import app
from xscl.ingestion.data_directory import DataDirectory

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")
UNITS = sorted([*DEPLOY.glob("*.service"), *DEPLOY.glob("*.timer")])
OURS = "xscl_"


def _instructions() -> Iterator[tuple[str, str]]:
    """Yield the instructions of the Dockerfile, with lines that go on put together."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    for one in filter(None, map(str.strip, text.splitlines())):
        name, _, arguments = one.partition(" ")
        yield name, " ".join(arguments.split())


def _all(name: str) -> list[str]:
    return [arguments for found, arguments in _instructions() if found == name]


def test_the_image_follows_the_rules() -> None:
    """Fixed tags, no root, no shell around the program, no package without version or hash."""
    for image in _all("FROM"):
        assert re.match(r"[\w./-]+:[\w.-]+( AS \w+)?$", image)
        assert ":latest" not in image
    last = [name for name, _ in _instructions()]
    last = last[len(last) - last[::-1].index("FROM") :]
    assert "USER" in last
    assert last.index("USER") < last.index("ENTRYPOINT")
    for name in ("ENTRYPOINT", "CMD"):
        (command,) = _all(name)
        assert isinstance(json.loads(command), list)
    assert _all("ADD") == []
    assert all("sudo" not in one and "apt-get" not in one for one in _all("RUN"))
    installs = [one for run in _all("RUN") for one in run.split("&&") if "pip install" in one]
    assert installs
    assert all("--no-cache-dir" in one for one in installs)
    assert all("--require-hashes" in one or "-c constraints.txt" in one for one in installs)
    assert len(_all("HEALTHCHECK")) == 1
    assert _all("EXPOSE") == ["8425"]


def test_the_image_has_the_versions_of_the_lock() -> None:
    """Its constraints are the pins of the lock with their markers: one version of each package."""
    (command,) = re.findall(r"sed -n '[^']+' requirements\.lock", DOCKERFILE)
    made = subprocess.check_output(shlex.split(command), cwd=ROOT, text=True)
    pins = [Requirement(line) for line in made.splitlines()]
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    assert len(pins) == len(re.findall(r"^[\w.-]+==", lock, re.MULTILINE))
    here = [one.name for one in pins if one.marker is None or one.marker.evaluate()]
    assert len(here) == len(set(here)) > 50


def test_what_the_image_copies_is_there_and_sent() -> None:
    sent = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for copied in (one for one in _all("COPY") if not one.startswith("--from")):
        for source in copied.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in sent, source


def _serve_options(words: Sequence[str]) -> None:
    command = get_group(app).commands["serve"].loaded  # type: ignore[attr-defined]
    known = {flag for one in command.params for flag in one.opts}
    assert words[0] == "serve"
    assert {one for one in words if one.startswith("--")} <= known


def test_commands_of_the_files_have_options_that_exist() -> None:
    (command,) = _all("CMD")
    _serve_options(json.loads(command))
    compose = _yaml("compose.yaml")
    _serve_options(compose["services"]["xscl"]["command"])
    unit = (DEPLOY / "xscl.service").read_text("utf-8")
    (start,) = re.findall(r"^ExecStart=/opt/xscl/bin/xscl (.*)$", unit, re.MULTILINE)
    _serve_options(shlex.split(start))
    for proxy in ("nginx.conf", "Caddyfile"):
        (words,) = re.findall(r"runs as: xscl (.*)$", (DEPLOY / proxy).read_text(), re.MULTILINE)
        _serve_options(shlex.split(words))


def _yaml(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


def test_the_services_refer_to_files_that_exist() -> None:
    services = _yaml("compose.yaml")["services"]
    build = services["xscl"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    for service in services.values():
        assert ":" in service["image"]
        assert not service["image"].endswith(":latest")
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("./") and source != "./operator.token":
                assert (DEPLOY / source).is_file()
    (job,) = _yaml("prometheus.yaml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["xscl:8425"]}]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    """Programs of the unit stand in for those that a machine would have at their paths."""
    for one in UNITS:
        text = one.read_text("utf-8").replace("/opt/xscl/bin/xscl", "/bin/true")
        (tmp_path / one.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_service_is_confined() -> None:
    unit = (DEPLOY / "xscl.service").read_text("utf-8")
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet="):
        assert f"\n{line}\n" in unit


@pytest.mark.slow  # the status is written every few seconds
def test_the_dashboard_asks_for_metrics_that_the_service_has(tmp_path: Path) -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text("utf-8"))
    home = DataDirectory(tmp_path / "data")
    with serving(home) as running, running.client() as client:
        eventually(lambda: "xscl_waiting" in client.get("/v1/metrics").text)
        text = client.get("/v1/metrics").text
    served = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    panels = dashboard["panels"]
    assert len({one["id"] for one in panels}) == len(panels)
    places = {(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels}
    assert len(places) == len(panels)
    for panel in panels:
        for target in panel["targets"]:
            named = set(re.findall(rf"{OURS}\w+", target["expr"]))
            assert named
            assert {re.sub(r"_bucket$", "", one) for one in named} <= served, target["expr"]


def test_the_proxies_pass_what_the_service_needs() -> None:
    nginx = (DEPLOY / "nginx.conf").read_text("utf-8")
    for header in ("Host", "X-Forwarded-For", "X-Forwarded-Proto"):
        assert f"proxy_set_header {header} " in nginx
    assert "proxy_buffering off;" in nginx
    assert "flush_interval -1" in (DEPLOY / "Caddyfile").read_text("utf-8")
