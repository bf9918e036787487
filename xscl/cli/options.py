"""The options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import typer

from xscl.cli.output import UsageError, warn
from xscl.errors import QueryError
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.client_address import network_of
from xscl.time_format import choose_zone


def option(help: str, metavar: str | None = None, *, flags: str = "", **more: Any) -> Any:
    """Return the declaration of an option, called as its parameter is, or by `flags`.

    It stands in an annotation, or in place of a default.  In that place it makes the default False
    for a `bool` and None for a type with None, and other options required
    (`commands.as_typer_reads`).  A `bool` has no `--no-` form, a `bool | None` has one.
    """
    return typer.Option(..., *flags.split(), help=help, metavar=metavar, **more)


def argument(help: str, metavar: str | None = None, **more: Any) -> Any:
    """Return the declaration of an argument; it stands in the same places as `option`."""
    return typer.Argument(help=help, metavar=metavar, **more)


class Setting(NamedTuple):
    """The declaration of an option that `xscl.toml` and the environment may give, too.

    `kind` is the type of its value in the file; with `is_path` it is a path relative to the file.
    """

    help: str
    metavar: str | None = None
    kind: type = str
    is_path: bool = False


SETTINGS: Mapping[str, Setting] = {
    "data": Setting("The data directory.", "DIR", is_path=True),
    "url": Setting("A running service; that of the data directory is found.", "URL"),
    "token": Setting(
        "Who asks the service: a file with a token. A token itself is visible to others.",
        "@FILE",
        is_path=True,
    ),
    "host": Setting("The address to listen on."),
    "port": Setting("The port; 0 is any free one.", kind=int),
    "name": Setting("A name it is called by; repeatable.", "HOST", list),
    "trusted-proxy": Setting(
        "A proxy whose X-Forwarded-For names the client; requests through it need a token;"
        " repeatable.",
        "CIDR",
        list,
    ),
    "connections": Setting(
        "Connections of one address at the same time, streams of events not counted.", kind=int
    ),
    "public-url": Setting(
        "Where others reach the service, as https://feeds.example/xscl: hubs of feeds (WebSub)"
        " send what is new to callbacks below it.",
        "URL",
    ),
    "master": Setting("Evaluate joins on the executors of this Spark master, such as local[2]."),
    "no-spark": Setting("Evaluate all in this process, also with a --master.", kind=bool),
    "notify-history": Setting("Print matches between items of first polls too.", kind=bool),
    "allow-address": Setting(
        "A private address that feeds may be fetched from and webhooks posted to, for every"
        " user of a service; repeatable.",
        "HOST:PORT",
        list,
    ),
    "contact": Setting(
        "Where publishers of feeds and receivers of webhooks reach you: it is in the"
        " User-Agent of every request, as https://... or mailto:...",
        "URL",
    ),
    "history": Setting(
        "How long to keep the texts of all documents: 30d (at first), 0s, inf. It is remembered.",
        "DURATION",
    ),
    "keep-matches": Setting(
        "How long to keep matches: 90d (at first), inf. It is remembered.", "DURATION"
    ),
    "smtp": Setting("The mail server: smtp+starttls://user:password@host:587/from@address.", "URL"),
    "timezone": Setting(
        "The zone of printed times, and of those in mails and feeds: local, UTC, or a name such as"
        " Europe/Berlin. JSON has UTC.",
        "ZONE",
    ),
    "log-format": Setting("Write every event as one line to standard error, not only warnings."),
}
"""The settings by the names of their options.  `xscl.toml` names the file of a token."""


def setting(name: str, *, help: str | None = None, **more: Any) -> Any:
    """Return the option of a setting; its environment variable is its name after `XSCL_`."""
    declared = SETTINGS[name]
    variable = "XSCL_" + name.replace("-", "_").upper()
    return option(
        help or declared.help, declared.metavar, flags=f"--{name}", envvar=variable, **more
    )


Data: TypeAlias = Annotated[Path, setting("data")]
DATA = Path("xscl-data")
"""The data directory unless --data or XSCL_DATA says otherwise."""

Url: TypeAlias = Annotated[str | None, setting("url")]

Json: TypeAlias = Annotated[bool, option("Answer in JSON, for programs.", flags="--json")]

Verbose: TypeAlias = Annotated[
    bool, option("Show ids and bound variables of matches, too.", flags="--verbose -v")
]

At: TypeAlias = Annotated[
    str | None,
    option("Of documents without a date, UTC unless it has a zone; else of their files.", "TIME"),
]

Native: TypeAlias = Annotated[bool, option("Feed items as published, not in canonical form.")]

NotifyHistory: TypeAlias = Annotated[bool, setting("notify-history")]


def command_group(help: str) -> typer.Typer:
    """Return a command whose functions are its subcommands."""
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


def home(data: Path) -> DataDirectory:
    """Return the data directory of `--data`."""
    return DataDirectory(data.expanduser().absolute())


class TypedToken(str):
    """A token, or @FILE, from the command line; from the environment or a file it is a `str`."""

    __slots__ = ()


def _token(context: typer.Context, text: str | None) -> str | None:
    """Return a token of the command line as TypedToken; warn if the list of processes shows it."""
    source = context.get_parameter_source("token")
    is_typed = source is not None and source.name == "COMMANDLINE"
    if text and is_typed and not text.startswith("@"):
        warn(
            "warning: a token on the command line can be read by all users of this machine",
            "--token @FILE and XSCL_TOKEN keep it to yourself",
        )
    return TypedToken(text) if text and is_typed else text


TokenOption: TypeAlias = Annotated[
    str | None, setting("token", callback=_token, show_default=False)
]


def _zone(name: str) -> str:
    """Choose the zone of printed times, and return its name; raises BadParameter."""
    try:
        choose_zone(name)
    except ValueError:
        raise typer.BadParameter(
            f"{name!r} is no time zone; write UTC, local, or a name such as Europe/Berlin"
        ) from None
    return name


Timezone: TypeAlias = Annotated[str, setting("timezone", callback=_zone)]


@dataclass(frozen=True, slots=True)
class Place:
    """The options that name what a command works on: a data directory, or a running service."""

    data: Data = DATA
    url: Url = None
    token: TokenOption = None


@dataclass(frozen=True, slots=True)
class Call(Place):
    """The options of nearly all commands: what they work on, and how they answer."""

    as_json: Json = False
    timezone: Timezone = "local"


def _host_and_port(address: str) -> str:
    """Return an address HOST:PORT; raises BadParameter for any other text."""
    if re.fullmatch(r"([^:\[\]\s]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}", address) is None:
        raise typer.BadParameter(f"{address!r} is not HOST:PORT, for example 127.0.0.1:8080")
    return address


AllowAddress: TypeAlias = Annotated[
    list[str] | None, setting("allow-address", parser=_host_and_port)
]


def _network(text: str) -> str:
    """Return the text of a network or an address; raises BadParameter for any other text."""
    try:
        network_of(text)
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is not a network such as 10.0.0.0/24 or ::1: {error}"
        ) from None
    return text


TrustedProxy: TypeAlias = Annotated[list[str] | None, setting("trusted-proxy", parser=_network)]


def _contact(text: str) -> str:
    """Return a URL for replies that a header may have; raises BadParameter for any other text."""
    if re.fullmatch(r"(https?://|mailto:)[!-\'*-~]+", text) is None:
        raise typer.BadParameter(f"{text!r} is not https://... nor mailto:...")
    return text


Contact: TypeAlias = Annotated[str, setting("contact", parser=_contact)]


def _age(text: str) -> str:
    """Return a duration with a unit, or `inf`; raises BadParameter for any other text."""
    if text.strip().isdecimal():
        raise typer.BadParameter(f"{text} has no unit; write '{text} d' or '{text} h'")
    # Loads the parser of durations and DuckDB, which other options do without.
    from xscl.documents.retention import ticks_of

    try:
        ticks_of(text)
    except QueryError as error:
        raise typer.BadParameter(f"{text!r} is not a duration such as 30d, nor inf") from error
    return text


HistoryAge: TypeAlias = Annotated[str | None, setting("history", parser=_age)]

KeepMatches: TypeAlias = Annotated[str | None, setting("keep-matches", parser=_age)]


# -- Arguments of the form @FILE, and files that options name ------------------------------


def file_text(path: Path, what: str = "") -> str:
    """Return the text of a UTF-8 file; raises UsageError, with `what` before its name."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(f"{what} {path}".lstrip(), error) from None


def file_bytes(path: Path, limit: int = -1) -> bytes:
    """Return at most `limit` bytes of a file, or of standard input for `-`; -1 is no limit."""
    if str(path) == "-":
        return sys.stdin.buffer.read(limit)
    try:
        with path.open("rb") as file:
            return file.read(limit)
    except OSError as error:
        raise _unreadable(str(path), error) from None


def not_standard(file: Path | None) -> Path | None:
    """Return the file that a command writes; raises UsageError for `-`, which stands for input."""
    if str(file) == "-":
        hint = "name a file; ./- is one of this name"
        raise UsageError("- is standard input, and no file to write", hint=hint)
    return file


def query_text(argument: str) -> str:
    """Return the text of a query: the argument, or after an @ the contents of a file."""
    if not argument.startswith("@"):
        return argument
    return file_text(Path(argument[1:]), "the query file")


def _unreadable(name: str, error: OSError | UnicodeDecodeError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
    return UsageError(f"{name} cannot be read: {reason}")
