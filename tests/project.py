"""The files of the project, and the wheel that is built from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("cep_core", "feeds", "templates", "xscl")

_HIDDEN = (".ci", ".gitattributes", ".gitignore")
_MADE = {"build", "dist", "node_modules", "__pycache__", "spark-warehouse", "metastore_db"}


def project_files(folder: Path = ROOT) -> Iterator[Path]:
    """Yield every file of the project below a folder, without what tools make."""
    for path in sorted(folder.iterdir()):
        hidden = path.name.startswith(".") and path.name not in _HIDDEN
        if hidden or path.name in _MADE or path.suffix in {".egg-info", ".pyc"}:
            continue
        if path.is_dir():
            yield from project_files(path)
        else:
            yield path


def python(*arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the packages of the project, and some variables in its environment."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


LEAN = (
    "import sys; from xscl.origins import HiddenModules; sys.meta_path.insert(0, HiddenModules)\n"
)
"""The beginning of a program without pandas, which pyarrow would load in half a second."""


def build_wheel(folder: Path) -> Path:
    """Build the wheel, without network, from a copy of the project in a folder.

    The copy has what a checkout has in which the package has run: compiled modules.
    """
    for path in project_files():
        if path.parent == ROOT or path.relative_to(ROOT).parts[0] in PACKAGES:
            target = folder / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for package in folder.rglob("__init__.py"):
        (package.parent / "__pycache__").mkdir()
        (package.parent / "__pycache__" / "__init__.cpython-311.pyc").write_bytes(b"compiled")
    build = "import setuptools.build_meta as b; print(b.build_wheel('.'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]
