"""A comparison of the items that two releases read in the same bodies of feeds.

    python -m tests.feeds.same_items CHECKOUT FOLDER...

CHECKOUT is a working tree of another release (`git worktree add`).  Both read every feed in the
folders; of each item its identity and its canonical document without times are compared.  Items
that differ in white space only are counted, all others are printed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from feeds.errors import FeedError
from feeds.formats.parse import parse_feed

URL = "http://feed.example/feed"
SEEN = 4 * 10**15
ENDINGS = frozenset({".xml", ".rdf", ".json", ".rss", ".atom"})

_NAME = re.compile(r"<id>[^<]*</id>")
_UNTIMED = re.compile(rb"<(published|updated|seen_at)>[^<]*</\1>")
_AT_ENDS = re.compile(r"(?<=>)\s+|\s+(?=<)|(?<=>)(?:&#13;|\s)+|(?:&#13;|\s)+(?=<)")


class ReadItem(NamedTuple):
    """An item of a feed, as a release reads it."""

    identity: str
    canonical: str


def read(file: Path) -> list[ReadItem] | str:
    """Return the items of a feed, or the error."""
    try:
        items = parse_feed(file.read_bytes(), url=URL, seen_at=SEEN).items
    except FeedError as error:
        return f"{error.reason_code}: {error}"
    return [
        ReadItem(item.identity, _UNTIMED.sub(b"", item.canonical).decode("utf-8")) for item in items
    ]


def feeds_in(folders: Iterable[str]) -> list[Path]:
    """Return the files of feeds in folders and below."""
    found = (file for each in folders for file in Path(each).resolve().rglob("*"))
    return sorted(file for file in found if file.suffix in ENDINGS)


def read_by(checkout: Path, folders: Sequence[str]) -> dict[str, list[ReadItem] | str]:
    """Return what the release in a working tree reads, by the name of the file."""
    answer = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), *folders],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdout=subprocess.PIPE,
        check=True,
    )
    return {
        name: found if isinstance(found, str) else [ReadItem(*item) for item in found]
        for name, found in json.loads(answer.stdout).items()
    }


def layout_apart(text: str) -> str:
    """Return a document without identity, white space at the ends of texts, repeated blanks."""
    return " ".join(_AT_ENDS.sub("", _NAME.sub("", text)).split())


def compared(
    before: Mapping[str, list[ReadItem] | str], now: Mapping[str, list[ReadItem] | str]
) -> tuple[Counter[str], list[str]]:
    """Return the numbers of items by how they differ, and a line for each difference of text."""
    counts: Counter[str] = Counter()
    lines: list[str] = []
    for name, old in before.items():
        new = now[name]
        if isinstance(old, str) or isinstance(new, str) or len(old) != len(new):
            counts["feeds read otherwise"] += old != new
            if old != new:
                lines.append(f"{name}: {_told(old)} -> {_told(new)}")
            continue
        for one, other in zip(old, new, strict=True):
            if one == other:
                counts["equal"] += 1
            elif layout_apart(one.canonical) == layout_apart(other.canonical):
                counts["layout white space"] += 1
            else:
                counts["text"] += 1
                lines.append(f"{name}: {_where(one.canonical, other.canonical)}")
            counts["other identities"] += one.identity != other.identity
    return counts, lines


def _told(found: list[ReadItem] | str) -> str:
    return found if isinstance(found, str) else f"{len(found)} items"


def _where(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    return f"{one[max(0, at - 30) : at + 70]!r} -> {other[max(0, at - 30) : at + 70]!r}"


def main(arguments: Sequence[str]) -> int:
    """Print the differences."""
    checkout, *folders = [str(Path(each).resolve()) for each in arguments]
    now: dict[str, list[ReadItem] | str] = {str(file): read(file) for file in feeds_in(folders)}
    counts, lines = compared(read_by(Path(checkout).resolve(), folders), now)
    print(*lines, sep="\n")
    print(f"{len(now)} feeds: " + ", ".join(f"{name} {n}" for name, n in sorted(counts.items())))
    return 0


if __name__ == "__main__":
    if Path(sys.argv[1]).joinpath("pyproject.toml").exists():
        sys.exit(main(sys.argv[1:]))
    print(json.dumps({str(file): read(file) for file in feeds_in(sys.argv[1:])}))
