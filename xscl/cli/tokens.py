"""`xscl token create`, `list`, `revoke`: tokens of the users of a service."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from xscl.cli.options import Call, command_group, option
from xscl.cli.output import answer, list_rows, warn
from xscl.cli.printed_times import to_second
from xscl.cli.service import opened
from xscl.client.calls import resource

app = command_group("Tokens of the service's users.")


@app.command()
def create(
    call: Call,
    user: Annotated[
        str | None, option("--user", "Whose it is; he is made with his first.", "NAME")
    ] = None,
    label: Annotated[str, option("--label", "What it is for.")] = "",
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


@app.command("list")
def list_(call: Call) -> None:
    """List the tokens, without what proves them.

    \b
    Example:
      xscl token list
    """
    with opened("token list", call) as service:
        found = service.ask("GET", "/v1/tokens").json()
    cells = (
        (one["id"], one["user"], to_second(datetime.fromisoformat(one["created"])), one["label"])
        for one in found
    )
    list_rows("tokens", found, ("ID", "USER", "CREATED", "LABEL"), cells, as_json=call.as_json)


@app.command()
def revoke(
    call: Call,
    which: Annotated[str, typer.Argument(metavar="ID", help="The id, as 'list' shows it.")],
) -> None:
    """Make a token worth nothing.

    \b
    Example:
      xscl token revoke 3f9a01c2
    """
    with opened("token revoke", call) as service:
        service.ask("DELETE", resource("tokens", which))
    answer({"revoked": which}, [f"revoked {which}"], as_json=call.as_json)
