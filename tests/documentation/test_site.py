"""The site builds without a warning, and loads nothing from elsewhere (`make docs`)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

pytest.importorskip("mkdocs", reason="make docs installs what builds the site")
LOADED = re.compile(r'<(?:script|link|img|iframe)\b[^>]*(?:src|href)="((?:https?:)?//[^"]+)"')


@pytest.mark.slow
def test_the_site_is_built_strictly_and_is_whole(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 80
    for page in pages:
        text = page.read_text("utf-8")
        assert LOADED.findall(text) == [], page
        assert "<!-- generated" not in text, page
    assert (tmp_path / "site" / "search" / "search_index.json").stat().st_size > 100_000
