"""`xscl token create`, `list`, `revoke`; `xscl user export`, `erase`: all data of a user."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from xscl.cli.connection import opened
from xscl.cli.options import Call, argument, command_group, option
from xscl.cli.output import TableColumn, answer, confirm, echo_json, list_rows, warn
from xscl.client.calls import resource
from xscl.time_format import to_second

tokens = command_group("Tokens of the service's users.")


@tokens.command()
def create(
    call: Call,
    user: str | None = option("Whose it is; he is made with his first.", "NAME"),
    label: Annotated[str, option("What it is for.")] = "",
) -> None:
    """Make a token and show it, this once. Without --user it is the operator's, who may do all.

    \b
    Example:
      xscl token create --user alice --label laptop
    """
    with opened("token create", call, missing="create") as service:
        body = {"user": user, "label": label}
        made = service.ask("POST", "/v1/tokens", json=body).json()
    value = {name: made[name] for name in ("id", "user", "label", "token")}
    answer(value, [made["token"]], as_json=call.as_json)
    if not call.as_json:
        warn(f"the token {made['id']} of {made['user']}: keep it, it is not shown again")


_CREATED: TableColumn = ("created", lambda one: to_second(datetime.fromisoformat(one["created"])))


@tokens.command("list")
def list_(call: Call) -> None:
    """List the tokens, without what proves them.

    \b
    Example:
      xscl token list
    """
    with opened("token list", call) as service:
        found = service.ask("GET", "/v1/tokens").json()
    list_rows("tokens", found, ("id", "user", _CREATED, "label"), as_json=call.as_json)


@tokens.command()
def revoke(
    call: Call,
    which: str = argument("The id, as 'list' shows it.", "ID"),
) -> None:
    """Make a token worth nothing.

    \b
    Example:
      xscl token revoke 3f9a01c2
    """
    with opened("token revoke", call) as service:
        service.ask("DELETE", resource("tokens", which))
    answer({"revoked": which}, [f"revoked {which}"], as_json=call.as_json)


users = command_group("The data of a user: export it, or erase it for good.")

_User = Annotated[str, argument("The name of the user.", "USER")]


@users.command()
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


@users.command()
def erase(
    call: Call,
    user: _User,
    yes: bool = option("Do not ask before."),
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
