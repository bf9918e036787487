"""The commands by name, each loaded when it is called.

The module of a command imports what the command works with (DuckDB, Arrow, an HTTP client), which
takes most of a second, and some of it belongs to an extra.  Options such as `--version`, the list
of commands and their completion need names and summaries only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import is_dataclass
from functools import cached_property, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand
from typer.main import get_group
from typer.models import ParameterInfo

from xscl.gc_control import paused, settle

COMMANDS: Mapping[str, str] = {
    "run": "run.run",
    "serve": "serve.serve",
    "subscribe": "subscriptions.subscribe",
    "unsubscribe": "subscriptions.unsubscribe",
    "edit": "subscriptions.edit",
    "pause": "subscriptions.pause",
    "resume": "subscriptions.resume",
    "rename": "subscriptions.rename",
    "rotate": "subscriptions.rotate",
    "tag": "subscriptions.tag",
    "subscriptions": "subscriptions.subscriptions",
    "import": "registrations.import_",
    "export": "registrations.export",
    "push": "push.push",
    "matches": "matches.matches",
    "stories": "matches.stories",
    "read": "matches.read",
    "stars": "matches.stars",
    "sql": "sql.sql",
    "explain": "questions.explain",
    "witness": "questions.witness",
    "try": "questions.try_query",
    "why": "questions.why",
    "status": "status.status",
    "doctor": "diagnostics.doctor",
    "backup": "backup.backup",
    "restore": "backup.restore",
    "help": "help.help_",
    "demo": "serve.demo",
    "feeds": "feeds.app",
    "spark": "spark.app",
    "stream": "streams.app",
    "token": "accounts.tokens",
    "user": "accounts.users",
    "spool": "spool.app",
}
"""The location of each command: a module of this package, a dot, and in it a function or a
`typer.Typer`."""


def as_typer_reads(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose options typer reads as they are declared in this package.

    A parameter `call: Call` of a dataclass type stands for the fields of `Call` as options, which
    follow the command's own; the command is called with the dataclass.  A `bool` is a flag by the
    name of its parameter, which typer would add a `--no-` form to.
    """
    own = signature(command, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)
    }
    fields = {name: signature(kind, eval_str=True).parameters for name, kind in groups.items()}

    @wraps(command)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field: given.pop(field) for field in fields[name]})
        command(**given)

    options = [one for name, one in own.items() if name not in groups]
    options += chain.from_iterable(group.values() for group in fields.values())
    called.__dict__["__signature__"] = Signature(list(map(_declared, options)))  # which typer reads
    return called


def _declared(parameter: Parameter) -> Parameter:
    """Return a parameter as keyword-only, with its option in the annotation, and a flag's name."""
    annotation: Any = parameter.annotation
    default = parameter.default
    if isinstance(default, ParameterInfo):
        implied: Any = None if NoneType in get_args(annotation) else Parameter.empty
        implied = False if annotation is bool else implied
        annotation, default = Annotated[annotation, default], implied
    kind, *declared = get_args(annotation) or (annotation,)
    if kind is bool and not declared[0].param_decls:
        named = copy(declared[0])
        named.param_decls = (f"--{parameter.name.replace('_', '-')}",)
        annotation = Annotated[bool, named]
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


class LazyCommand(TyperCommand):
    """Placeholder of a command in the list; it imports the command when it is called."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__(name)
        self._label = name
        self._module, _, self._name = place.partition(".")

    @cached_property
    def loaded(self) -> Any:
        """The command itself."""
        with paused():  # collection takes a fifth of the time of imports, and finds nothing
            found = getattr(import_module(f"{__package__}.{self._module}"), self._name)
        settle(oldest=None)
        group = typer.Typer(rich_markup_mode=None)
        if isinstance(found, typer.Typer):
            for one in found.registered_commands:
                assert one.callback is not None
                one.callback = as_typer_reads(one.callback)
            group.add_typer(found, name=self._label)
        else:
            group.command(self._label)(as_typer_reads(found))
        return get_group(group).commands[self._label]

    @cached_property
    def summary(self) -> str:
        """The first line of the command's help, read from the source of its module."""
        source = Path(__file__).with_name(f"{self._module}.py")
        for node in ast.parse(source.read_bytes()).body:
            match node:
                case ast.FunctionDef(name=self._name):
                    return (ast.get_docstring(node) or "").partition("\n")[0]
                case ast.Assign([ast.Name(self._name)], ast.Call(args=[ast.Constant(str(text))])):
                    return text
                case _:
                    pass
        raise LookupError(self._label)

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the summary for the list of commands and completion.

        One that is longer than `limit` ends with its first clause, or is cut.
        """
        clause = re.match(rf".{{20,{max(20, limit - 2)}}}?(?=[;:])", self.summary)
        is_long = clause is not None and len(self.summary) > limit
        self.help = f"{clause[0]}." if clause is not None and is_long else self.summary
        return super().get_short_help_str(limit)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return a context of the loaded command, which its group then invokes."""
        return self.loaded.make_context(info_name, args, parent=parent, **extra)


def lazy_commands() -> dict[str, Any]:
    """Return all commands by name, none of them imported."""
    return {name: LazyCommand(name, place) for name, place in COMMANDS.items()}
