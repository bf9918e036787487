"""Links of pages to files outside of docs/.

Pages at the top of the project are part of the site, below `project/`.  Other files are not: a link
to one becomes its text.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

PROJECT: Mapping[str, str] = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
"""Places in the site of pages at the top of the project."""
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def rewritten(markdown: str, here: str, source: str) -> str:
    """Return a page with links as they are in the site.

    `here` is the page's place in the site, `source` that of its file in the project.
    """

    def link(found: re.Match[str]) -> str:
        text, path, anchor = found[1], found[2], found[3] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        place = PROJECT.get(target)
        if target.startswith("docs/"):
            place = target.removeprefix("docs/")
        elif target == "README.md":
            place = "index.md"
        elif target == "examples/README.md":
            place = "how-to/examples.md"
        if place is None:
            return text
        return f"[{text}]({posixpath.relpath(place, posixpath.dirname(here) or '.')}{anchor})"

    return _LINK.sub(link, markdown)
