"""Options that belong together, declared once as the fields of a dataclass.

A command with a parameter of such a type, for example `call: Call`, has its fields as options and
is called with the dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import chain
from typing import Any


def with_options_of_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters of dataclass types are options, one for each field.

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
