"""The examples of the documentation work, and its links lead somewhere."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.project import PACKAGES, ROOT, project_files
from xscl.delivery.channels.signature import headers, new_secret
from xscl.delivery.endpoint import SCHEDULE

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


@pytest.mark.parametrize("folder", ["decisions", "measurements", "internals"])
def test_an_index_lists_every_page_of_its_folder(folder: str) -> None:
    index = (DOCS / folder / "README.md").read_text("utf-8")
    pages = {path.name for path in (DOCS / folder).glob("*.md")} - {"README.md"}
    assert pages == set(re.findall(r"\]\(([^)/]+\.md)\)", index))


DECISIONS = sorted((DOCS / "decisions").glob("*.md"))


@pytest.mark.parametrize(
    "page",
    [page for page in DECISIONS if page.name != "README.md"],
    ids=lambda path: path.stem,
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


def test_the_modules_that_architecture_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    named = re.findall(rf"`((?:{'|'.join(PACKAGES)}|tests)/[\w/.]+)`", text)
    assert len(named) > 60
    assert [one for one in named if not (ROOT / one).exists()] == []
