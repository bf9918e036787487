"""Data for tests: feeds, lists of feeds and documents.

`tests/data` is part of the project: files made by hand after real ones, for every clone.  Real data
is no part of it; where it lies beside the repository, the same tests run over it too.  Otherwise
they are skipped, or fail with XSCL_REQUIRE_SHARED_DATA=1, which `.ci/run` sets where the data is.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

OWN = Path(__file__).resolve().parent / "data"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
IS_REQUIRED = os.environ.get("XSCL_REQUIRE_SHARED_DATA") == "1"

_OF_OURS = {
    "real-feeds": "feeds",
    "rss-sync-open": "snapshots",
    "opml": "opml",
    "xml-docs": "documents",
}
"""The folders of real data, and the folders of our own that are made after them."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Data for tests: real data, or the project's own."""

    is_real: bool

    def folder(self, name: str) -> Path:
        """Return a folder by its name in the real data."""
        return shared_folder(name) if self.is_real else OWN / _OF_OURS[name]


def shared_folder(name: str) -> Path:
    """Return a folder of real data; without it the test is skipped, or fails if it is required."""
    found = SHARED / name
    if not found.is_dir():
        message = f"no real data: there is no shared/data/{name} beside the repository"
        if IS_REQUIRED:
            pytest.fail(message)
        pytest.skip(message)
    return found


def index(feeds: Path) -> list[dict[str, str]]:
    """Return the rows of an index of feeds: file, version, entries, well_formed."""
    with (feeds / "INDEX.tsv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))
