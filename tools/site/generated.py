"""Parts of pages that are made from the program.

A part stands between `<!-- generated: NAME -->` and `<!-- end: NAME -->`.  The pages are committed
with their parts, so that readers of the repository see them; `make reference` writes them again,
and a test compares them with the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.site.commands import commands, environment, settings
from tools.site.python_api import exceptions, python
from tools.site.relations import relations
from tools.site.service_api import errors, http

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end: \2 -->)", re.DOTALL)


def grammar() -> str:
    """Return the grammar of XSCL."""
    return f"```text\n{(ROOT / 'xscl/language/xscl.lark').read_text('utf-8').rstrip()}\n```\n"


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "environment": environment,
    "errors": errors,
    "exceptions": exceptions,
    "grammar": grammar,
    "http": http,
    "python": python,
    "relations": relations,
    "settings": settings,
}


def completed(markdown: str) -> str:
    """Return a page with its generated parts as the program is now."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]().strip()}\n\n{part[3]}", markdown)


if __name__ == "__main__":
    for page in DOCS.rglob("*.md"):
        page.write_text(completed(page.read_text("utf-8")), "utf-8")
