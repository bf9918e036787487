"""`xscl rotate`."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.cli.completion import subscriptions_like
from xscl.cli.options import Call, option
from xscl.cli.output import UsageError, answer, warn
from xscl.cli.service import opened
from xscl.cli.subscriptions import check_webhook
from xscl.client.calls import resource


def rotate(
    call: Call,
    name: Annotated[
        str,
        typer.Argument(help="The name of the subscription.", autocompletion=subscriptions_like),
    ],
    endpoint: Annotated[
        str | None, option("--endpoint", "Which webhook, if there are several.", "ID")
    ] = None,
    webhook: Annotated[
        str | None, option("--webhook", "Have its matches posted there from now on.", "URL")
    ] = None,
) -> None:
    """Make a new secret for a webhook; for a day the old one signs, too.

    Secrets are in no backup. A webhook that was restored on another machine
    waits, and goes on once it has a new secret. An address that has a secret
    itself is given again by --webhook.

    \b
    Example:
      xscl rotate echo
      xscl rotate echo --webhook 'https://example.org/hook?token=abc'
    """
    check_webhook(webhook)
    with opened("rotate", call) as service:
        service.existing(name)
        endpoints = resource("subscriptions", name, "endpoints")
        found = [one for one in service.ask("GET", endpoints).json() if one["kind"] == "webhook"]
        chosen = [one for one in found if endpoint in (None, one["id"])]
        if len(chosen) != 1:
            listed = ", ".join(f"{one['id']} ({one['to']['url']})" for one in found)
            raise UsageError(
                f"{name!r} has {'more than one' if chosen else 'no such'} webhook",
                hint=f"--endpoint chooses one: {listed}" if found else "it posts nothing",
            )
        path = resource("subscriptions", name, "endpoints", chosen[0]["id"])
        if webhook is not None:
            service.ask("PATCH", path, json={"url": webhook})
        secret = service.ask("POST", f"{path}:rotate").json()["secret"]
        made = service.ask("GET", path).json()
    shown = {field: made[field] for field in ("id", "state", "note")}
    answer({"rotated": name, **shown, "secret": secret}, [secret], as_json=call.as_json)
    if not call.as_json:
        warn("the secret signs what the webhook is sent: keep it, it is not shown again")
        if made["note"]:
            warn(f"the webhook waits: {made['note']} (--webhook URL)")
