"""The forms for endpoints on a subscription's page."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal, TypeAlias, assert_never
from urllib.parse import quote

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import TypeAdapter, ValidationError

from xscl.delivery.endpoint import Kind
from xscl.errors import XsclError
from xscl.service.dependencies import Here, Who
from xscl.service.problems import Problem, unprocessable
from xscl.service.routes import deliveries
from xscl.web.problems import PageRoute, problem_text
from xscl.web.rendering import page
from xscl.web.views.subscriptions import DeliveryForm, show

router = APIRouter(prefix="/subscriptions/endpoint", route_class=PageRoute, include_in_schema=False)

Deed: TypeAlias = Literal["pause", "resume", "rotate", "replay", "remove", "confirm"]
Name = Annotated[str, Form(max_length=500)]
Id = Annotated[str, Form(max_length=100)]
Wanted: TypeAlias = deliveries.NewWebhook | deliveries.NewMail | deliveries.NewFile
_WANTED: TypeAdapter[Wanted] = TypeAdapter(deliveries.New)


@router.post("/add")
def add(
    request: Request,
    here: Here,
    who: Who,
    name: Name,
    kind: Annotated[Kind, Form()],
    to: Annotated[str, Form(max_length=4_000)] = "",
    every: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Create an endpoint; show the secret of a webhook once."""
    given = DeliveryForm(kind, to.strip(), every)
    try:
        made = deliveries.make(name, here, who, _wanted(given))
    except (Problem, XsclError) as error:
        status = error.status if isinstance(error, Problem) else HTTPStatus.UNPROCESSABLE_ENTITY
        return show(
            request, here, who, name, status=status, wrong=problem_text(error, who), given=given
        )
    if made.secret is None:
        return _back(name)
    return page(request, "endpoint.html", who, name=name, to=made.to["url"], secret=made.secret)


@router.post("/change")
def change(
    request: Request,
    here: Here,
    who: Who,
    name: Name,
    id: Id,
    do: Annotated[Deed, Form()],
    message: Id = "",
    code: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """Pause, resume, confirm or remove an endpoint, rotate its secret, or replay its letters.

    Confirming without a code mails a new one.
    """
    match do:
        case "pause":
            deliveries.change(name, id, here, who, _changes("paused"))
        case "resume":
            deliveries.change(name, id, here, who, _changes("active"))
        case "replay":
            deliveries.replay(name, id, here, who, deliveries.Replay(message=message or None))
        case "confirm":
            confirmation = deliveries.Confirmation(code=code or None)
            deliveries.confirm(name, id, here, who, confirmation)
        case "remove":
            deliveries.delete(name, id, here, who)
        case "rotate":
            secret = deliveries.rotate(name, id, here, who).secret
            to = deliveries.get(name, id, here, who).to["url"]
            return page(request, "endpoint.html", who, name=name, to=to, secret=secret)
        case _:
            assert_never(do)
    return _back(name)


def _wanted(given: DeliveryForm) -> Wanted:
    """Validate the form; raises Problem."""
    field = {"webhook": "url", "mail": "to", "file": "name"}[given.kind]
    asked = {"kind": given.kind, field: given.to}
    if given.kind == "mail" and given.every:
        asked["every"] = given.every
    try:
        return _WANTED.validate_python(asked)
    except ValidationError as error:
        words = str(error.errors()[0]["msg"])
        raise unprocessable("invalid_request", words) from error


def _changes(state: str) -> deliveries.Changes:
    return deliveries.Changes.model_validate({"state": state})


def _back(name: str) -> RedirectResponse:
    return RedirectResponse(f"/subscriptions/{quote(name)}#deliveries", HTTPStatus.SEE_OTHER)
