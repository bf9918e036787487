"""Matches as users see them: with the user's names, as JSON and as view models of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xscl.client import answers
from xscl.delivery.cards import MatchView, StoryShown, shown
from xscl.delivery.message import row_of, size_of
from xscl.delivery.message_reader import story_or_match
from xscl.engine.match_log import MatchPlace
from xscl.engine.story_log import Story, StoryLog
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.problems import not_found
from xscl.store.queries.browsing import times_of_arrival
from xscl.subscriptions.match import Match

LAST = 1 << 31
"""An upper bound of subscription numbers."""
_TOGETHER = 100  # matches read at once when the number of the subscription is not known


def match_views(app: App, account: Account, found: Sequence[Match]) -> list[MatchView]:
    """Return view models of matches that a page with `heads` had, with stories as one view each.

    A head is the match with which a story has grown last.  A story that has grown since the page
    was read is left out: its later head is on a later page.
    """
    groups = (story_or_match(app.engine.log, [match]) for match in found)
    return _views(app, account, [group for group in groups if group is not None])


def _views(app: App, account: Account, groups: Sequence[Sequence[Match]]) -> list[MatchView]:
    names = {name for group in groups for match in group for name in match.names}
    with app.store() as store:
        arrived = times_of_arrival(store, names)
    return [_view(account, group, arrived) for group in groups]


def _view(account: Account, group: Sequence[Match], arrived: Mapping[str, int]) -> MatchView:
    """Return the view model of a match, or of a story; `arrived` has ticks by document's name."""
    match, *others = group
    view = shown(match, account.named(match.subscription), account.named, together=others)
    names = {name for one in group for name in one.names}
    latest = max((arrived[name] for name in names & arrived.keys()), default=None)
    if not isinstance(group, Story):
        return replace(view, arrived=latest)
    story = StoryShown(group.id, group.total, (group.last, group.number), len(match.names))
    return replace(view, arrived=latest, t1=group.t1 or match.t1, story=story)


def match_view(
    app: App,
    account: Account,
    id: str,
    position: int,
    number: int | None = None,
    *,
    stories: bool = False,
) -> MatchView:
    """Return the view model of the match with an id and a position; raises Problem 404.

    With the `number` of its subscription the match is read directly, else it is searched among
    those of all subscriptions at the position.  With `stories` the view model is that of the
    match's story, if it has one.
    """

    before: MatchPlace = (position, LAST if number is None else number + 1)
    most = _TOGETHER if number is None else 1
    while True:
        page = app.engine.log.page_of_all(account.has, before=before, limit=most, newest_first=True)
        for match in page.matches:
            if match.id == id and match.position == position:
                story = StoryLog(app.engine.log).having(match) if stories else None
                return _views(app, account, [story or [match]])[0]
        if number is not None or page.place <= (position, 0):
            raise not_found("match", id)
        before = page.place


PAGE_BYTES = 16_000_000
"""Maximum number of characters in the texts of a page's matches."""


def shown_within(account: Account, matches: Sequence[Match]) -> list[answers.Match]:
    """Return the first matches that fit on a page of `PAGE_BYTES` characters, at least one."""
    shown: list[answers.Match] = []
    left = PAGE_BYTES
    for match in matches:
        row = row_of(match, account.named)
        match.forget()
        left -= size_of(row)
        if left < 0 and shown:
            break
        shown.append(answers.Match.model_validate(row))
    return shown
