"""`xscl user export`, `erase`: all data of a user of a service."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from xscl.cli.options import Call, command_group, option
from xscl.cli.output import answer, confirm, echo_json
from xscl.cli.service import opened
from xscl.client.calls import resource

app = command_group("The data of a user: export it, or erase it for good.")

_User = Annotated[str, typer.Argument(metavar="USER", help="The name of the user.")]


@app.command()
def export(call: Call, user: _User) -> None:
    """Print all that is kept of a user, one JSON value a line, each with its kind.

    Account, tokens without secrets, streams, feeds, subscriptions with their
    versions, endpoints, documents and matches.

    \b
    Example:
      xscl user export alice > alice.jsonl
    """
    with opened("user export", call) as service:
        text = b"".join(service.fetch("GET", f"{resource('accounts', user)}/data"))
    for line in text.splitlines():
        echo_json(json.loads(line))


@app.command()
def erase(
    call: Call,
    user: _User,
    yes: Annotated[bool, option("--yes", "Do not ask before.")] = False,
) -> None:
    """Erase a user with all data, for good.

    Backups still have what the user sent.

    \b
    Example:
      xscl user erase alice
    """
    with opened("user erase", call) as service:
        if not yes:
            confirm(f"erase the user {user!r} with all data for good?", "this erases a user")
        service.erase_user(user)
    answer({"erased": user}, [f"erased {user!r}"], as_json=call.as_json)
