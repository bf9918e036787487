"""The commands by name, each loaded when it is called.

The module of a command imports what the command works with (DuckDB, Arrow, an HTTP client), which
takes most of a second, and some of it belongs to an extra.  Options such as `--version`, the list
of commands and their completion need names and summaries only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from functools import cached_property, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_group

from xscl.gc_control import paused, settle

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run.run", "Run queries over files and print their matches."),
    "serve": (
        "serve.serve",
        "Poll feeds, join what comes, answer over HTTP, print matches; until Ctrl-C or SIGTERM.",
    ),
    "subscribe": (
        "subscriptions.subscribe",
        "Register a query under a name; it begins with what is kept, and goes on.",
    ),
    "unsubscribe": (
        "subscriptions.unsubscribe",
        "Remove a subscription; its matches stay, unless they are purged.",
    ),
    "edit": (
        "editing.edit",
        "Give a subscription another query: its next version, under the same name.",
    ),
    "pause": (
        "editing.pause",
        "Stop the matches and deliveries of a subscription until it is resumed.",
    ),
    "resume": (
        "editing.resume",
        "Resume a paused subscription: it has matches and deliveries again, from now on.",
    ),
    "rename": (
        "editing.rename",
        "Give a subscription another name; its matches keep their ids, and deliveries go on.",
    ),
    "rotate": (
        "webhooks.rotate",
        "Make a new secret for a webhook; for a day the old one signs, too.",
    ),
    "tag": (
        "editing.tag",
        "Add tags to a subscription, or remove them; lists are filtered by them.",
    ),
    "subscriptions": (
        "subscriptions.subscriptions",
        "List the subscriptions in the order of their names.",
    ),
    "import": (
        "import_subscriptions.import_",
        "Subscribe to all queries of a file: CSV with the columns name,query, or JSON lines.",
    ),
    "export": (
        "export_file.export",
        "Write users, subscriptions, feeds and endpoints to a file, with secrets.",
    ),
    "push": (
        "push.push",
        "Take documents into the data directory, durably, and print the matches.",
    ),
    "matches": (
        "matches.matches",
        "List the matches of a subscription that are kept, in the order in which they were found.",
    ),
    "stars": ("matches.stars", "List the starred matches as they were, the last starred first."),
    "sql": ("sql.sql", "Run one SELECT over the witness relations and all other public tables."),
    "explain": (
        "questions.explain",
        "Show how a query is evaluated: join graph, template, sharing, windows, state kept.",
    ),
    "witness": (
        "questions.witness",
        "Show a document as a tree with its node ids and which variables bind where.",
    ),
    "try": (
        "questions.try_query",
        "Print what a query would have matched on the kept documents, without registering it.",
    ),
    "why": (
        "questions.why",
        "Show why a query matches some documents, or why not: all that it asks of them.",
    ),
    "status": (
        "status.status",
        "Show what is registered, how much came in, and what waits; also of a running service.",
    ),
    "doctor": (
        "diagnostics.doctor",
        "Look at this machine and the data directory; say what is wrong, and how to mend it.",
    ),
    "backup": (
        "backup.backup",
        "Write everything that is kept to one file: the store, and what waits in the spool.",
    ),
    "restore": ("backup.restore", "Put a backup back, or accept a store that has gone backwards."),
    "help": (
        "help.help_",
        "Show the reference of the query languages: a page, or one section of it.",
    ),
    "demo": ("serve.demo", "Show everything at work on three small feeds with five subscriptions."),
    "feeds": ("feeds.app", "Follow feeds: RSS, Atom and JSON Feed."),
    "spark": (
        "spark.app",
        "Joins on Spark's executors: a job, and the catalog of its subscriptions.",
    ),
    "stream": (
        "streams.app",
        "Streams: their lateness, and whether time passes on them by the wall clock.",
    ),
    "token": ("tokens.app", "Tokens of the service's users."),
    "user": ("users.app", "The data of a user: export it, or erase it for good."),
    "spool": ("spool.app", "The queue of documents that were taken and not consumed yet."),
}
"""The location of each command, and the first sentence of its help.

A location is a module of this package, a dot, and in it a function or a `typer.Typer`.
"""


def with_options_of_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters of dataclass types are options, one for each field.

    A command with a parameter `call: Call` has the fields of `Call` as options, which are declared
    once, and is called with the dataclass.
    These options follow the command's own.  A command without such parameters is returned as it is.
    """
    own = signature(command, eval_str=True).parameters
    types: dict[str, Any] = {name: one.annotation for name, one in own.items()}
    groups = [name for name, kind in types.items() if is_dataclass(kind)]
    if not groups:
        return command
    fields = {name: signature(types[name], eval_str=True).parameters for name in groups}

    @wraps(command)
    def called(**given: Any) -> None:
        for name in groups:
            given[name] = types[name](**{field: given.pop(field) for field in fields[name]})
        command(**given)

    options = [one for name, one in own.items() if name not in groups]
    options += chain.from_iterable(group.values() for group in fields.values())
    by_name = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in options]
    called.__dict__["__signature__"] = Signature(by_name)  # which typer reads
    return called


class LazyCommand(TyperCommand):
    """Placeholder of a command in the list; it imports the command when it is called."""

    def __init__(self, name: str, place: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._label = name
        self._place = place

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        module, _, name = self._place.partition(".")
        with paused():  # a fifth of the time of imports, and nothing in them is garbage
            found = getattr(import_module(f"{__package__}.{module}"), name)
        settle(oldest=None)
        group = typer.Typer(rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            for one in found.registered_commands:
                assert one.callback is not None
                one.callback = with_options_of_groups(one.callback)
            group.add_typer(found, name=self._label)
        else:
            group.command(self._label)(with_options_of_groups(found))
        return get_group(group).commands[self._label]

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return a context of the loaded command, which its group then invokes."""
        return self.loaded.make_context(info_name, args, parent=parent, **extra)


def lazy_commands() -> dict[str, Any]:
    """Return all commands by name, none of them imported."""
    return {name: LazyCommand(name, *command) for name, command in COMMANDS.items()}
