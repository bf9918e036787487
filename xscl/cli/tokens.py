"""`xscl token create`, `list`, `revoke`: who may use a service that listens beyond this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from xscl.cli.options import DATA, Data, Json, home
from xscl.cli.output import complain, instant, say, say_json, table
from xscl.engine import Engine
from xscl.service.accounts import THE_OPERATOR, Accounts
from xscl.service.tokens import Tokens

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
    as_json: Json = False,
) -> None:
    """Make a token and show it, this once. Without --user it is the operator's, who may do all.

    \b
    Example:
      xscl token create --user alice --label laptop
    """
    with _opened(data, "token create") as (accounts, tokens):
        account = THE_OPERATOR if user is None else accounts.make(user)
        token, text = tokens.create(account, label)
    if as_json:
        say_json({"id": token.id, "user": account.name, "label": label, "token": text})
        return
    say(text)
    complain(f"the token {token.id} of {account.name}: keep it, it is not shown again")


@app.command("list")
def list_(data: Data = DATA, as_json: Json = False) -> None:
    """List the tokens, without what proves them.

    \b
    Example:
      xscl token list
    """
    home(data).expect()
    with _opened(data, "token list") as (accounts, tokens):
        names = {one.number: one.name for one in accounts}
        found = tokens.of()
    if as_json:
        say_json(
            [
                {"id": t.id, "user": names[t.account], "label": t.label, "created": t.created}
                for t in found
            ]
        )
        return
    rows = [(t.id, names[t.account], instant(t.created), t.label) for t in found]
    for line in table(("ID", "USER", "CREATED", "LABEL"), rows):
        say(line)


@app.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="The id, as 'list' shows it.")],
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Make a token worth nothing.

    \b
    Example:
      xscl token revoke 3f9a01c2
    """
    home(data).expect()
    with _opened(data, "token revoke") as (_, tokens):
        tokens.revoke(token)
    if as_json:
        say_json({"revoked": token})
    else:
        say(f"revoked {token}")


@contextmanager
def _opened(data: Path, command: str) -> Iterator[tuple[Accounts, Tokens]]:
    """Yield the accounts and tokens of a data directory that nobody else uses."""
    place = home(data)
    with (
        place.hold(command),
        Engine(place.database) as engine,
        closing(engine.store()) as store,
    ):
        accounts = Accounts(store)
        yield accounts, Tokens(store, accounts)
