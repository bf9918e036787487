"""Commands of the command line, keys of `xscl.toml` and variables of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from tools.site.tables import table
from xscl.cli import app
from xscl.cli.settings import KEYS

_KINDS = {str: "text", int: "number", list: "list of texts", bool: "true or false"}
WIDTH = 96
_TOKEN_FILE = "A file with the token that commands send."


def commands() -> str:
    """Return the help of each command under a heading of its own."""
    parts = []
    for name, command in leaves():
        context = typer.Context(command, info_name=f"xscl {name}", terminal_width=WIDTH)
        parts.append(f"## xscl {name}\n\n```text\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def leaves() -> Iterator[tuple[str, Any]]:
    """Yield each command that does something, with its name behind `xscl`."""
    for name, lazy in get_group(app).commands.items():
        command = lazy.loaded  # type: ignore[attr-defined]
        if isinstance(command, TyperGroup):
            for inner, one in command.commands.items():
                yield f"{name} {inner}", one
        else:
            yield name, command


def settings() -> str:
    """Return the keys of `xscl.toml` with the meaning of their options."""
    meanings = {"token-file": _TOKEN_FILE}
    rows = (
        (f"`{key}`", _KINDS[one.kind], meanings.get(key, one.help)) for key, one in KEYS.items()
    )
    return table(("key", "value", "meaning"), rows)


def environment() -> str:
    """Return the variables of the environment with the meaning of their options."""
    found = {
        variable: (f"`{one.opts[0]}`", one.help or "")
        for _, command in leaves()
        for one in command.params
        if (variable := getattr(one, "envvar", None))
    }
    found["XSCL_TOKEN_FILE"] = "`--token @FILE`", _TOKEN_FILE
    rows = ((f"`{name}`", *found[name]) for name in sorted(found))
    return table(("variable", "option", "meaning"), rows)
