"""The forms for endpoints on a subscription's page."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal, TypeAlias, assert_never
from urllib.parse import quote

from fastapi import Form, Response
from fastapi.responses import RedirectResponse
from pydantic import TypeAdapter, ValidationError

from xscl.delivery.endpoint import CHANNELS, Kind
from xscl.errors import XsclError
from xscl.service.problems import Problem
from xscl.service.routes import deliveries
from xscl.web.page_request import Asked, router
from xscl.web.problems import problem_text
from xscl.web.views.subscriptions import DeliveryForm, Id, Name, show

Deed: TypeAlias = Literal["pause", "resume", "rotate", "replay", "remove", "confirm"]
_WANTED: TypeAdapter[deliveries.New] = TypeAdapter(deliveries.New)


@router.post("/subscriptions/endpoint/add")
def add(
    asked: Asked,
    name: Name,
    kind: Annotated[Kind, Form()],
    to: Annotated[str, Form(max_length=4_000)] = "",
    every: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Create an endpoint; show the secret of a webhook once."""
    given = DeliveryForm(kind, to.strip(), every)
    try:
        made = deliveries.make(name, asked.app, asked.account, _wanted(given))
    except (Problem, XsclError) as error:
        status = error.status if isinstance(error, Problem) else HTTPStatus.UNPROCESSABLE_ENTITY
        wrong = problem_text(error, asked.account)
        return show(asked, name, status=status, wrong=wrong, given=given)
    if made.secret is None:
        return _back(name)
    return asked.page("endpoint.html", name=name, to=made.to["url"], secret=made.secret)


@router.post("/subscriptions/endpoint/change")
def change(
    asked: Asked,
    name: Name,
    id: Id,
    do: Annotated[Deed, Form()],
    message: Id = "",
    code: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Pause, resume, confirm or remove an endpoint, rotate its secret, or replay its letters.

    Confirming without a code mails a new one.
    """
    of = name, id, asked.app, asked.account
    match do:
        case "pause" | "resume":
            state = "paused" if do == "pause" else "active"
            deliveries.change(*of, deliveries.Changes.model_validate({"state": state}))
        case "replay":
            deliveries.replay(*of, deliveries.Replay(message=message or None))
        case "confirm":
            deliveries.confirm(*of, deliveries.Confirmation(code=code or None))
        case "remove":
            deliveries.delete(*of)
        case "rotate":
            secret = deliveries.rotate(*of).secret
            to = deliveries.get(*of).to["url"]
            return asked.page("endpoint.html", name=name, to=to, secret=secret)
        case _:
            assert_never(do)
    return _back(name)


def _wanted(given: DeliveryForm) -> deliveries.New:
    """Validate the form; raises Problem."""
    asked = {"kind": given.kind, CHANNELS[given.kind].target: given.to}
    if given.kind == "mail" and given.every:
        asked["every"] = given.every
    try:
        return _WANTED.validate_python(asked)
    except ValidationError as error:
        words = str(error.errors()[0]["msg"])
        raise Problem("invalid_request", words) from error


def _back(name: str) -> RedirectResponse:
    return RedirectResponse(f"/subscriptions/{quote(name)}#deliveries", HTTPStatus.SEE_OTHER)
