"""Golden files: what the papers say, and every message as the user sees it."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def messages(name: str) -> list[tuple[str, str]]:
    """Return the queries of a golden file, and their messages; lines of dashes part them."""
    text = (FOLDER / "language" / f"{name}.txt").read_text("utf-8")
    parted = (case.strip("\n").split("\n\n", 1) for case in text.split("\n----\n"))
    return [(query, message) for query, message in parted]
