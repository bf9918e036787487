"""Subscriptions: the list, and a page for each with join graph, matches and endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import takewhile
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, assert_never
from urllib.parse import quote

from fastapi import Form, Query, Response
from pydantic import BaseModel, Field, StringConstraints, TypeAdapter, ValidationError

from feeds.formats.times import SECOND
from xscl.client import Version, answers
from xscl.delivery.endpoint import CHANNELS
from xscl.delivery.history_summary import history_summary
from xscl.documents.results import XSCL, Subscription
from xscl.drawing.queries import draw_query
from xscl.drawing.svg import Picture
from xscl.engine import backfills
from xscl.errors import XsclError
from xscl.language.sentence import sentence
from xscl.planning.compile import compile_query
from xscl.service.match_views import match_views
from xscl.service.problems import Problem
from xscl.service.routes import deliveries, subscriptions, syndication
from xscl.service.subscribing import SubscriptionEdit, change, existing, history_of, unsubscribe
from xscl.service.tags import LONGEST, checked_tags, set_tags, split_tags
from xscl.store.queries.kept_matches import match_counts
from xscl.store.queries.subscriptions import count_of, count_sharing, names_of, tag_counts, tags_of
from xscl.time_format import duration
from xscl.web.pages import Asked, Back, Lines, ListQuery, PageProblem, PageRequest, router
from xscl.web.rendering import DAYS, spark
from xscl.web.views.matches import starred_of

LIMIT = 50
MATCHES = 5
LETTERS = 20
"""Maximum number of refused messages (*letters*) that are shown of an endpoint."""

Name = Annotated[str, Form(max_length=500)]
Id = Annotated[str, Form(max_length=100)]
Tags = Annotated[str, Form(max_length=2_000)]
Flag = Annotated[str, Form(max_length=10)]
Saved: TypeAlias = Literal["history", "now", "edit"]
"""The result of the editor: a subscription with a backfill, one without, or an edited one."""


MatchCounts: TypeAlias = Mapping[str, Any]
"""A row of `match_counts`, with the sparkline of the last days as `spark`."""


class SubscriptionRow(NamedTuple):
    """A row of the list: the API's view of a subscription, and the counts `found` of its matches.

    `about` is the comment at the beginning of the query, `text` the query without this comment.
    """

    shown: answers.Subscription
    found: MatchCounts
    about: str
    text: str


def _row(shown: answers.Subscription, found: MatchCounts) -> SubscriptionRow:
    lines = shown.query.splitlines()
    comment = list(takewhile(lambda line: line.lstrip().startswith("--"), lines))
    about = " ".join(line.strip().removeprefix("--").strip() for line in comment)
    return SubscriptionRow(shown, found, about, "\n".join(lines[len(comment) :]).strip())


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """An endpoint in the list: the API's view, target and interval as text, and last letters.

    `behind` is True if its cursor is behind the newest position.
    """

    shown: deliveries.ShownEndpoint
    to: str
    behind: bool
    every: str
    letters: list[deliveries.ShownLetter]


class DeliveryForm(BaseModel):
    """The input of the endpoint form, which is shown again with its error."""

    name: str = Field(default="", max_length=500)
    kind: str = Field(default="webhook", pattern=f"^({'|'.join(CHANNELS)})$")
    to: Annotated[str, StringConstraints(max_length=4_000, strip_whitespace=True)] = ""
    every: str = Field(default="", max_length=20)


NOTHING = DeliveryForm()


class SubscriptionFilter(ListQuery):
    """The filter of the list: `q` is a part of the name, `template` the number of a template."""

    q: str = Field(default="", max_length=200)
    after: str = Field(default="", max_length=500)
    template: int = Field(default=0, ge=0, lt=1 << 31)
    tag: str = Field(default="", max_length=LONGEST)


@router.get("/subscriptions")
def listed(asked: Asked, wanted: Annotated[SubscriptionFilter, Query()]) -> Response:
    """Show a page of the subscriptions in the order of their names."""
    app, account = asked.app, asked.account
    with app.store() as store:
        names = names_of(
            store,
            account.number,
            after=account.qualify(wanted.after) if wanted.after else "",
            part=wanted.q,
            template=wanted.template,
            tag=wanted.tag,
            limit=LIMIT + 1,
        )
        total, tags = count_of(store, account.number), tag_counts(store, account.number)
        tagged = tags_of(store, names)
    known = [one for one in map(app.engine.subscription, names) if one is not None]
    counts = _counts(asked, [one.number for one in known])
    shares = subscriptions.cost_shares(app, account, names)
    rows = [
        _row(subscriptions.shown(app, account, one, tagged[one.name], shares), counts[one.number])
        for one in known[:LIMIT]
    ]
    return asked.page(
        "subscriptions.html",
        total=total,
        rows=rows,
        wanted=wanted,
        tags=tags,
        addresses=syndication.addresses_of_all(app, account),
        removed=subscriptions.removed_names(app, account),
        next=wanted.address("/subscriptions", after=rows[-1].shown.name)
        if len(known) > LIMIT
        else None,
    )


def _counts(asked: PageRequest, numbers: list[int]) -> dict[int, MatchCounts]:
    """Return the counts of matches by number of subscription; zeros for one without matches."""
    none: MatchCounts = {"matches": 0, "lately": 0, "last": None, "spark": None}
    found = asked.with_store(match_counts, numbers, now=asked.app.clock.now(), days=DAYS)
    rows = {row["number"]: row | {"spark": spark(row["days_ago"], "match")} for row in found}
    return dict.fromkeys(numbers, none) | rows


@router.get("/subscriptions/{name:path}")
def one(asked: Asked, name: str, saved: Annotated[Saved | None, Query()] = None) -> Response:
    """Show a subscription; with `saved`, set by the editor, also from when on it has matches."""
    return show(asked, name, saved=saved)


def show(
    asked: PageRequest,
    name: str,
    *,
    status: int = HTTPStatus.OK,
    wrong: PageProblem | None = None,
    given: DeliveryForm = NOTHING,
    edited: str | None = None,
    refused: str = "",
    saved: Saved | None = None,
) -> Response:
    """Show a subscription; `wrong` is the error of the endpoint form `given`.

    `refused` is the error of the query `edited`.
    """
    app, account = asked.app, asked.account
    found = existing(app, account, name)
    shown = subscriptions.shown(app, account, found)
    is_read = shown.language == XSCL and shown.refused is None
    last = app.engine.log.page(found.name, limit=MATCHES, newest_first=True, heads=True)
    listed = match_views(app, account, last.matches)
    return asked.page(
        "subscription.html",
        status=status,
        name=name,
        one=shown,
        drawn=drawing(shown.query) if is_read else None,
        read_back=sentence(shown.query) if is_read else "",
        sharing=_sharing(asked, found.qid, found.template),
        explained=app.engine.explain(found.name) if account.is_operator else "",
        matches=listed,
        found=_counts(asked, [found.number])[found.number],
        stars=starred_of(asked, listed),
        addresses=syndication.addresses(name, app, account),
        endpoints=list(_endpoints(asked, name)),
        kinds=[kind for kind, one in CHANNELS.items() if one.is_operators <= account.is_operator],
        wrong=wrong,
        given=given,
        edited=edited,
        refused=refused,
        earlier=_earlier(asked, name, found.version),
        saved="" if saved is None else _saved(asked, found, saved),
    )


def _saved(asked: PageRequest, found: Subscription, saved: Saved) -> str:
    """Return the sentence that says from when on a saved subscription has matches."""
    if saved == "edit":
        return f"Version {found.version} is on; the matches of earlier versions stay"
    if saved == "now":
        return "It begins with what arrives from now on"
    how_far = history_of(asked.app, found)
    if how_far == "reading":
        return "What is kept is being read; its matches follow, and new ones with them"
    if how_far == "failed":
        return "Too much is kept to be read: it begins with what arrives from now on"
    kept = asked.app.engine.matches_of(found.name, limit=backfills.MATCHES).matches
    return history_summary([one for one in kept if one.backfilled], "30 days")


def _earlier(asked: PageRequest, name: str, current: int) -> list[Version]:
    """Return the versions before `current` whose matches are kept, each number once."""
    versions = {one.version: one for one in subscriptions.versions_(name, asked.app, asked.account)}
    return [one for version, one in versions.items() if version != current]


def _endpoints(asked: PageRequest, name: str) -> Iterator[EndpointRow]:
    """Yield the endpoints of a subscription as rows of its page."""
    app, account = asked.app, asked.account
    reached = app.delivery.pages.position()
    for each in deliveries.listed(name, app, account):
        to = each.to.get("url") or each.to.get("to") or each.to.get("name", "")
        every = int(each.to.get("every") or 0)
        letters = deliveries.letters(name, each.id, app, account) if each.letters else []
        words = duration(every * SECOND) if every else ""
        yield EndpointRow(each, str(to), each.position < reached, words, letters[-LETTERS:])


@router.post("/subscriptions/address")
def address(asked: Asked, name: Name = "") -> Response:
    """Create a secret address of a subscription's matches, or of all with no name; show it once."""
    label = syndication.NewAddress(label="page")
    given = asked.app, asked.account, asked.request, label
    made = syndication.make(name, *given) if name else syndication.make_of_all(*given)
    return asked.page("address.html", name=name, made=made)


@router.post("/subscriptions/address/revoke")
def revoke(asked: Asked, id: Id, name: Name = "") -> Response:
    """Revoke a secret address and return to its subscription, or to the list."""
    if name:
        syndication.revoke(name, id, asked.app, asked.account)
    else:
        syndication.revoke_of_all(id, asked.app, asked.account)
    at = f"/subscriptions/{quote(name)}" if name else "/subscriptions"
    return asked.redirect(at)


@router.post("/subscriptions/pause")
def pause(
    asked: Asked,
    names: Annotated[list[Name], Form(max_length=LIMIT)],
    paused: Flag = "",
    back: Back = "/subscriptions",
) -> Response:
    """Pause or resume a subscription, or the chosen ones of a list, and return to the page."""
    for name in names:
        change(asked.app, asked.account, name, SubscriptionEdit(paused=bool(paused)))
    return asked.back(back)


@router.post("/subscriptions/tag-all")
def tag_all(
    asked: Asked,
    names: Annotated[list[Name], Form(max_length=LIMIT)],
    tags: Tags = "",
    remove: Flag = "",
    back: Back = "/subscriptions",
) -> Response:
    """Add tags to the chosen subscriptions of a list, or remove them, and return to it."""
    given = split_tags(tags)
    tagged = asked.with_store(
        tags_of, [existing(asked.app, asked.account, name).name for name in names]
    )
    wanted = {
        known: checked_tags([tag for tag in before if tag not in given] + ([] if remove else given))
        for known, before in tagged.items()
    }
    asked.with_store(set_tags, wanted)
    return asked.back(back)


@router.post("/subscriptions/edit")
def edit(
    asked: Asked,
    name: Name,
    new: Annotated[str, Form(max_length=500)] = "",
    tags: Tags = "",
    query: Annotated[Lines, Form(max_length=1_000_000)] = "",
) -> Response:
    """Change a subscription and return to it: with `new` its name and tags, else its query.

    A refused query is shown again with its error.
    """
    text, named = query.strip(), new or name
    wanted: dict[str, Any] = {"tags": split_tags(tags)} if new else {"query": text}
    if named != name:
        wanted["name"] = named
    try:
        change(asked.app, asked.account, name, SubscriptionEdit.model_construct(**wanted))
    except XsclError as error:
        if new:
            raise
        wrong = HTTPStatus.UNPROCESSABLE_ENTITY
        return show(asked, name, status=wrong, edited=text, refused=str(error))
    return asked.redirect(f"/subscriptions/{quote(named)}")


@router.post("/subscriptions/remove")
def remove(asked: Asked, name: Name, purge: Flag = "") -> Response:
    """Unsubscribe and return to the list."""
    unsubscribe(asked.app, asked.account, name, cascade=False, purge=bool(purge))
    return asked.redirect("/subscriptions")


def drawing(query: str) -> Picture:
    """Return the picture of a query's join graph; raises QueryError."""
    return draw_query(compile_query(query))


def _sharing(asked: PageRequest, qid: int, template: int) -> str:
    """Return, as text, counts of subscriptions with the same results and with the same template.

    The text is for the operator, and empty for users.
    """
    if not asked.account.is_operator:
        return ""
    with asked.app.store() as store:
        equal, alike = count_sharing(store, qid, template)
    words = [f"shared by {equal:,}"] if equal > 1 else []
    if template:
        words.append(f"template {template}, which has {alike:,}")
    return " · ".join(words)


Deed: TypeAlias = Literal["pause", "resume", "rotate", "replay", "remove", "confirm"]
_WANTED: TypeAdapter[deliveries.NewEndpoint] = TypeAdapter(deliveries.NewEndpoint)


@router.post("/subscriptions/endpoint/add")
def add_endpoint(asked: Asked, given: Annotated[DeliveryForm, Form()]) -> Response:
    """Create an endpoint; show the secret of a webhook once."""
    name = given.name
    try:
        made = deliveries.make(name, asked.app, asked.account, _wanted(given))
    except (Problem, XsclError) as error:
        status = error.status if isinstance(error, Problem) else HTTPStatus.UNPROCESSABLE_ENTITY
        wrong = asked.problem(error)
        return show(asked, name, status=status, wrong=wrong, given=given)
    if made.secret is None:
        return _back(asked, name)
    return asked.page("endpoint.html", name=name, to=made.to["url"], secret=made.secret)


@router.post("/subscriptions/endpoint/change")
def change_endpoint(
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
    return _back(asked, name)


def _wanted(given: DeliveryForm) -> deliveries.NewEndpoint:
    """Return the endpoint that a form describes; raises Problem."""
    asked = {"kind": given.kind, CHANNELS[given.kind].target: given.to}
    if given.kind == "mail" and given.every:
        asked["every"] = given.every
    try:
        return _WANTED.validate_python(asked)
    except ValidationError as error:
        words = str(error.errors()[0]["msg"])
        raise Problem("invalid_request", words) from error


def _back(asked: PageRequest, name: str) -> Response:
    return asked.redirect(f"/subscriptions/{quote(name)}#deliveries")
