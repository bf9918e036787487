"""Packages of other projects that have the names of ours."""

from __future__ import annotations

from pathlib import Path


def write_foreign_packages(folder: Path) -> None:
    """Write packages and a module named like ours, each of which ends a process that imports it."""
    for name in ("templates", "feeds"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit('a foreign package')\n")
    (folder / "cep_core.py").write_text("raise SystemExit('a foreign module')\n")
