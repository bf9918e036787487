"""Parts of pages that are made from the program: `<!-- generated: NAME -->`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.site.commands import commands, environment, settings
from tools.site.python_api import exceptions, python
from tools.site.relations import relations
from tools.site.service_api import errors, http

ROOT = Path(__file__).resolve().parents[2]
_MARK = re.compile(r"<!-- generated: (\w+) -->")


def grammar() -> str:
    """Return the grammar of XSCL."""
    return f"```text\n{(ROOT / 'xscl/language/xscl.lark').read_text('utf-8').rstrip()}\n```\n"


def limits() -> str:
    """Return the bounds of SECURITY.md without the names of their tests."""
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    text = text[text.index("### Connections and requests") :]
    text = re.sub(r"^### ", "## ", text, flags=re.MULTILINE)
    return re.sub(r"^(\|.*)\|[^|]*\|$", r"\1|", text, flags=re.MULTILINE)


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "environment": environment,
    "errors": errors,
    "exceptions": exceptions,
    "grammar": grammar,
    "http": http,
    "limits": limits,
    "python": python,
    "relations": relations,
    "settings": settings,
}


def completed(markdown: str) -> str:
    """Return a page with its generated parts."""
    return _MARK.sub(lambda found: PARTS[found[1]](), markdown)


def marks(markdown: str) -> list[str]:
    """Return the names of the parts that a page asks for."""
    return _MARK.findall(markdown)
