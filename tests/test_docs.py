"""The examples of the documentation work, and its links lead somewhere."""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

import xscl
from benchmarks.catalog import BENCHMARKS
from tests.project import PACKAGES, ROOT, project_files
from xscl.delivery.channels.signature import headers, new_secret
from xscl.delivery.endpoint import SCHEDULE
from xscl.delivery.message import row_of

DOCS = ROOT / "docs"
DELIVERIES = (DOCS / "deliveries.md").read_text("utf-8")
PAGES = sorted(path for path in project_files() if path.suffix == ".md")


def _verified() -> Callable[[str, dict[str, str], bytes], bool]:
    (code,) = re.findall(r"```python\n(.*?)```", DELIVERIES, re.DOTALL)
    found: dict[str, Callable[[str, dict[str, str], bytes], bool]] = {}
    exec(compile(code, "deliveries.md", "exec"), found)
    return found["verified"]


def test_w13_the_example_of_a_receiver_takes_and_refuses() -> None:
    verified, secret, old, now = _verified(), new_secret(), new_secret(), int(time.time())
    signed = headers([secret], "m", now, b"{}")
    assert verified(secret, signed, b"{}")
    assert verified(old, headers([secret, old], "m", now, b"{}"), b"{}")
    assert not verified(secret, signed, b"{ ")
    assert not verified(old, signed, b"{}")
    for wrong in (now - 600, now + 600):
        assert not verified(secret, headers([secret], "m", wrong, b"{}"), b"{}")


def test_the_schedule_is_the_one_that_is_told() -> None:
    units = {"s": 1, "min": 60, "h": 3_600}
    told = re.search(r"tries again after (.*?) \(", DELIVERIES)
    assert told is not None
    waits = [one.split() for one in told[1].split(", ")]
    assert tuple(int(number) * units[unit] for number, unit in waits) == SCHEDULE


def test_a_match_in_json_has_the_fields_that_are_told() -> None:
    engine = xscl.Engine()
    engine.subscribe("news", "news//item[./title->t]")
    text = b"<item><title>Ferry stops</title></item>"
    (match,) = engine.push([xscl.Document("news", "a#1", 1, text)])
    found = re.search(r"## A match in JSON.*?```json\n(.*?)```", DELIVERIES, re.DOTALL)
    assert found is not None
    told, sent = json.loads(found[1]), row_of(match)
    assert told.keys() == sent.keys()
    assert told["sources"][0].keys() == sent["sources"][0].keys()
    assert told["bindings"]["t"][0].keys() == sent["bindings"]["t"][0].keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_links_of_a_page_lead_to_files_and_headings(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for path, anchor in re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#?([^)\s]*)\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        if anchor:
            headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings]
            assert anchor in slugs, (path, anchor)


@pytest.mark.parametrize("folder", ["decisions", "internals"])
def test_an_index_lists_every_page_of_its_folder(folder: str) -> None:
    index = (DOCS / folder / "README.md").read_text("utf-8")
    pages = {path.name for path in (DOCS / folder).glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\(([^)/]+\.md)\)", index))


DECISIONS = sorted((DOCS / "decisions").glob("*.md"))


@pytest.mark.parametrize(
    "page", [page for page in DECISIONS if page.name != "README.md"], ids=lambda path: path.stem
)
def test_a_decision_has_its_four_parts(page: Path) -> None:
    _, *decisions = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
    parts = ("Context", "Decision", "Consequences", "Alternatives")
    for decision in decisions:
        places = [decision.find(f"**{part}.**") for part in parts]
        assert -1 not in places, decision
        assert places == sorted(places), decision
    assert decisions


def test_the_decisions_are_short() -> None:
    assert sum(len(page.read_text("utf-8").split()) for page in DECISIONS) <= 18_000


ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text("utf-8")


def test_the_files_that_architecture_names_exist() -> None:
    """A name without a folder follows a name with its folder: `xscl/spark/job.py`; `probe.py`."""
    files = [f"/{path.relative_to(ROOT).as_posix()}" for path in project_files()]
    named = set(re.findall(r"`([\w/]+\.(?:py|lark|js|html|txt))`", ARCHITECTURE))
    folders = set(re.findall(rf"`((?:{'|'.join(PACKAGES)}|tests)/[\w/]+)`", ARCHITECTURE))
    assert len(named) > 150
    assert [one for one in sorted(named) if not any(f.endswith(f"/{one}") for f in files)] == []
    assert len(folders) > 20
    assert [one for one in sorted(folders) if not (ROOT / one).exists()] == []


def test_the_picture_of_packages_is_the_order_of_imports() -> None:
    (picture,) = re.findall(r"```\n( for people .*?)```", ARCHITECTURE, re.DOTALL)
    drawn = re.findall(r"\w+", re.sub(r"^ [a-z]+(?: [a-z]+)+  +", "", picture, flags=re.MULTILINE))
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    layers = " ".join(contracts["contracts"][0]["layers"]).replace("|", " ").split()
    names = [one.removeprefix("xscl.") for one in layers]
    assert drawn == [
        one for one in names if (ROOT / one).is_dir() or (ROOT / "xscl" / one).is_dir()
    ]


def test_the_page_of_measurements_names_every_benchmark_and_only_those() -> None:
    pages = [page.read_text("utf-8") for page in PAGES if page.name != "CHANGELOG.md"]
    asked = set(re.findall(r"python -m benchmarks ([a-z][\w-]*)", " ".join(pages)))
    assert asked - BENCHMARKS.keys() == set()
    page = (DOCS / "measurements.md").read_text("utf-8")
    told = set(re.findall(r"python -m benchmarks ([a-z][\w-]*)", page))
    assert BENCHMARKS.keys() - told == {"capacity"}  # which docs/how-to/capacity.md has


def test_the_modules_that_pages_run_exist() -> None:
    pages = " ".join(page.read_text("utf-8") for page in PAGES if page.name != "CHANGELOG.md")
    run = set(re.findall(r"python -m ((?:benchmarks|tests|tools)\.[\w.]*\w)", pages))
    assert len(run) > 5
    assert [one for one in sorted(run) if find_spec(one) is None] == []
