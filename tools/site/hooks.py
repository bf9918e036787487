"""Hooks of MkDocs (`hooks` in mkdocs.yml).

MkDocs loads this file by its path, so the project's root is put on the search path first.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from mkdocs.structure.pages import Page  # noqa: E402

from tools.site.links import PROJECT, rewritten  # noqa: E402

_SOURCES = {place: name for name, place in PROJECT.items()}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder where the navigation names it, but those that it names itself."""
    named = set(_names(config.nav))
    config.nav = _listed(config.nav, named)
    return config


def _names(entry: Any) -> Iterator[str]:
    """Yield the pages that a part of the navigation names."""
    match entry:
        case str():
            yield entry
        case dict():
            yield from _names(list(entry.values()))
        case list():
            for one in entry:
                yield from _names(one)
        case _:
            raise TypeError(f"no part of a navigation: {entry!r}")


def _listed(entry: Any, named: Container[str]) -> Any:
    """Return a part of the navigation with pages for folders, a README first."""
    match entry:
        case str() if entry.endswith("/"):
            names = sorted(path.name for path in (ROOT / "docs" / entry).glob("*.md"))
            names.sort(key=lambda name: name != "README.md")
            return [f"{entry}{name}" for name in names if f"{entry}{name}" not in named]
        case dict():
            return {name: _listed(one, named) for name, one in entry.items()}
        case list():
            return [_listed(one, named) for one in entry]
        case _:
            return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the top of the project."""
    for place, name in _SOURCES.items():
        files.append(File.generated(config, place, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of docs/ to where these pages are in the site."""
    place = page.file.src_uri
    return rewritten(markdown, place, _SOURCES.get(place, f"docs/{place}"))
