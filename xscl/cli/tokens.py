"""`xscl token create`, `list`, `revoke`: who may use a service that listens beyond this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from xscl.cli.options import DATA, Data, Json, Token, Url, home
from xscl.cli.output import complain, instant, say, say_json, table
from xscl.cli.remote import place, reached
from xscl.engine import Engine
from xscl.service.accounts import THE_OPERATOR, Accounts
from xscl.service.tokens import Tokens
from xscl.time_format import ticks_of_time, written

app = typer.Typer(
    help="Tokens of the service's users.", no_args_is_help=True, rich_markup_mode=None
)


@app.command()
def create(
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help="Whose it is; he is made with his first."),
    ] = None,
    label: Annotated[str, typer.Option("--label", help="What it is for.")] = "",
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a token and show it, this once. Without --user it is the operator's, who may do all.

    \b
    Example:
      xscl token create --user alice --label laptop
    """
    service = reached(data, url, token)
    if service is not None:
        with service:
            wanted = {"user": user, "label": label}
            made = service.ask("POST", "/v1/tokens", json=wanted).json()
    else:
        with _opened(data, "token create") as (accounts, tokens):
            account = THE_OPERATOR if user is None else accounts.make(user)
            new, text = tokens.create(account, label)
        made = {"id": new.id, "user": account.name, "label": label, "token": text}
    if as_json:
        say_json({name: made[name] for name in ("id", "user", "label", "token")})
        return
    say(made["token"])
    complain(f"the token {made['id']} of {made['user']}: keep it, it is not shown again")


@app.command("list")
def list_(data: Data = DATA, url: Url = None, token: Token = None, as_json: Json = False) -> None:
    """List the tokens, without what proves them.

    \b
    Example:
      xscl token list
    """
    service = reached(data, url, token)
    if service is not None:
        with service:
            found = service.get("/v1/tokens")
    else:
        home(data).expect()
        with _opened(data, "token list") as (accounts, tokens):
            names = {one.number: one.name for one in accounts}
            found = [
                {
                    "id": t.id,
                    "user": names[t.account],
                    "label": t.label,
                    "created": written(t.created),
                }
                for t in tokens.of()
            ]
    if as_json:
        say_json(found)
        return
    rows = [(t["id"], t["user"], instant(ticks_of_time(t["created"])), t["label"]) for t in found]
    for line in table(("ID", "USER", "CREATED", "LABEL"), rows):
        say(line)


@app.command()
def revoke(
    which: Annotated[str, typer.Argument(metavar="ID", help="The id, as 'list' shows it.")],
    data: Data = DATA,
    url: Url = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Make a token worth nothing.

    \b
    Example:
      xscl token revoke 3f9a01c2
    """
    service = reached(data, url, token)
    if service is not None:
        with service:
            service.ask("DELETE", place("tokens", which))
    else:
        home(data).expect()
        with _opened(data, "token revoke") as (_, tokens):
            tokens.revoke(which)
    if as_json:
        say_json({"revoked": which})
    else:
        say(f"revoked {which}")


@contextmanager
def _opened(data: Path, command: str) -> Iterator[tuple[Accounts, Tokens]]:
    """Yield the accounts and tokens of a data directory that nobody else uses."""
    place = home(data)
    with (
        place.hold(command),
        Engine(place.database) as engine,
        closing(engine.host.connect()) as store,
    ):
        accounts = Accounts(store)
        yield accounts, Tokens(store, accounts)
