"""Where the real feeds are; they are no part of the project."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def folder(name: str) -> Path:
    """A folder of real data; skips the test without it, and fails it in CI."""
    found = DATA / name
    if not found.is_dir():
        message = f"there is no shared/data/{name} beside the repository"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


def index(feeds: Path) -> list[dict[str, str]]:
    """The rows of the index of real feeds: file, version, entries, well_formed."""
    with (feeds / "INDEX.tsv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))
