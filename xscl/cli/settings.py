"""`xscl.toml`: defaults of options, below the command line and the environment.

    data = "/var/lib/xscl"          # for all commands
    token-file = "operator.token"
    port = 8425                      # for serve
    history = "7d"
    allow-address = ["127.0.0.1:8080"]

Only the first file that exists is read: in the working directory, in the data directory, in
~/.config/xscl.  Its paths are relative to its folder.  Precedence: option, environment, file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from typer.core import TyperGroup, TyperOption

from xscl.cli.commands import LazyCommand
from xscl.cli.options import DATA, SETTINGS, Setting, file_text
from xscl.cli.output import UsageError
from xscl.errors import near_miss

NAME = "xscl.toml"

_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a number",
    list: "a list of texts",
    bool: "true or false",
}
KEYS: Mapping[str, Setting] = {
    "token-file" if name == "token" else name: one for name, one in SETTINGS.items()
}


def config(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Mapping[str, Any]:
    """Return the values of the first settings file by key (`KEYS`), none without a file.

    Raises UsageError for unknown keys and wrong types.
    """
    files = (folder / NAME for folder in _folders(arguments, environ))
    return next((_read(file) for file in files if file.is_file()), {})


def defaults(
    found: Mapping[str, Any],
    arguments: Sequence[str],
    group: TyperGroup,
    environ: Mapping[str, str],
) -> dict[str, Any]:
    """Return the settings as a `default_map` of the command that the arguments name."""
    values = {name.replace("-", "_"): value for name, value in found.items()}
    token = environ.get("XSCL_TOKEN_FILE") or values.pop("token_file", None)
    if token is not None:
        values["token"] = f"@{token}"
    name = next(iter(arguments), "")
    command = group.commands.get(name)
    if command is None or not values:
        return {}
    return {
        name: _for_command(command.loaded if isinstance(command, LazyCommand) else command, values)
    }


def _for_command(command: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are options of a command; for a group, by command."""
    if isinstance(command, TyperGroup):
        return {name: _for_command(one, values) for name, one in command.commands.items()}
    options = {param.name for param in command.params if isinstance(param, TyperOption)}
    return {key: value for key, value in values.items() if key in options}


def _folders(arguments: Sequence[str], environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders of settings files, in order of precedence."""
    data = environ.get("XSCL_DATA") or str(DATA)
    for place, one in enumerate(arguments):
        if one == "--data" and place + 1 < len(arguments):
            data = arguments[place + 1]
        elif one.startswith("--data="):
            data = one.partition("=")[2]
    own = environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path.cwd(), Path(data).expanduser(), Path(own).expanduser() / "xscl"


def _read(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file_text(file))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file}: {error}", hint='a line is: name = "value"') from None
    for name, value in values.items():
        if name not in KEYS:
            near = near_miss(name, KEYS, likeness=0.5, quoted=True)
            hint = near or f"there are {', '.join(KEYS)}"
            raise UsageError(f"{file}: there is no setting {name!r}", hint=hint)
        kind = KEYS[name].kind
        texts = value if isinstance(value, list) else ()
        if type(value) is not kind or not all(isinstance(text, str) for text in texts):
            raise UsageError(f"{file}: {name} is not {_KINDS[kind]}: {value!r}")
    return {
        name: str(file.parent / Path(value).expanduser()) if KEYS[name].is_path else value
        for name, value in values.items()
    }
