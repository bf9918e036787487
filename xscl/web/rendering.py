"""Rendering of templates, with the headers of the content security policy.

Templates escape every value.  Only pictures and time elements are markup made by code: lxml
serializes pictures, and the values in elements are escaped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from importlib import resources
from typing import Any
from urllib.parse import urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from feeds.formats.display import safe_link
from xscl.delivery.cards import MatchView, sentence_case, shortened
from xscl.drawing.charts import draw_sparkline
from xscl.drawing.svg import Picture
from xscl.plurals import counted
from xscl.service.accounts import Account
from xscl.time_format import INSTANT, SECOND, moment, ticks_of_time

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
"""With `no-referrer` browsers would send `Origin: null` for the forms of this site."""
THEMES = ("auto", "light", "dark")
THEME = "xscl_theme"
"""The cookie of the colour theme."""
DENSITIES = ("wide", "dense")
DENSITY = "xscl_density"
"""The cookie of the density of lists."""

_SPANS = (("s", 1, 60), ("min", 60, 3_600), ("h", 3_600, 172_800), ("days", 86_400, 604_800))
"""Units of relative times: length in seconds, and the number of seconds below which it is used."""

_FRACTIONS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))

VIEWS = (
    ("/", "Matches"),
    ("/items", "Items"),
    ("/feeds", "Feeds"),
    ("/subscriptions", "Subscriptions"),
    ("/help", "Help"),
)
FURTHER_VIEWS = (
    ("/gallery", "Gallery"),
    ("/witnesses", "Data (SQL)"),
    ("/plan", "Plan"),
    ("/status", "Status"),
    ("/operator", "Operator"),
)
"""The views in the menu, and those under its entry *More*: path and title."""
OPERATORS_VIEWS = ("/plan", "/status", "/operator")


def _picture(picture: Picture) -> Markup:
    """Return the markup of a picture, which lxml has escaped."""
    return Markup(picture.svg())


def when(ticks: int) -> str:
    """Return a time in ticks as text in UTC, such as `01 Mar 2026, 12:00 UTC`."""
    try:
        return datetime.fromtimestamp(ticks / 1e6, UTC).strftime("%d %b %Y, %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return str(ticks)


def time_element(value: int | str | datetime | None) -> Markup:
    """Return the element of a time (ticks, text or datetime); None is the text `never`.

    It shows a time within a week relative to now, and the absolute time on hover.
    """
    if isinstance(value, datetime):
        value = value.isoformat()
    ticks = ticks_of_time(value) if isinstance(value, str) else value
    if ticks is None:
        return Markup("{}").format("never" if value is None else value)
    absolute, passed = when(ticks), int(time.time()) - ticks // SECOND
    element = Markup('<time datetime="{}" title="{}">{}</time>')
    return element.format(moment(ticks), absolute, _ago(passed) or absolute)


def timed(text: str) -> Markup:
    """Return a text with its times as elements, which scripts show in the reader's time zone."""
    return Markup("").join(
        Markup('<span data-at="{}">{}</span>').format(part, when(ticks_of_time(part) or 0))
        if at % 2
        else part
        for at, part in enumerate(INSTANT.split(text))
    )


def _ago(seconds: int) -> str:
    """Return `N UNIT ago`, for negative seconds `in N UNIT`; empty for more than a week."""
    length = abs(seconds)
    for unit, size, below in _SPANS:
        if length < below:
            words = f"{length // size} {unit}" if size > 1 else "now"
            return words if words == "now" else f"{words} ago" if seconds > 0 else f"in {words}"
    return ""


def percent(share: float) -> str:
    """Format a share from 0 to 1: `37 %`, `2.4 %`, `under 0.1 %`."""
    if 0 < share < 0.001:
        return "under 0.1 %"
    return f"{share:.0%}".replace("%", " %") if share >= 0.1 else f"{100 * share:.1f} %"


def spent(seconds: float) -> str:
    """Format a time that was spent: `3.2 s`, `14 ms`, `0.5 µs`."""
    unit, size = next(one for one in _FRACTIONS if seconds >= one[1] or one[1] < 1e-5)
    number = seconds / size
    return f"{number:,.0f} {unit}" if number >= 10 else f"{number:.1f} {unit}"


def _why_query(match: MatchView) -> str:
    """Return the parameters of the page that explains a match."""
    documents = [("doc", card.document) for card in match.compared]
    return urlencode([("subscription", match.subscription), *documents])


_TEMPLATES = Environment(
    loader=PackageLoader("xscl.web"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update(
    picture=_picture,
    time=time_element,
    timed=timed,
    counted=counted,
    percent=percent,
    spent=spent,
    query=urlencode,
    safe_link=safe_link,
    shortened=shortened,
    sentence_case=sentence_case,
    why_query=_why_query,
)
_TEMPLATES.globals.update(
    views=VIEWS, further=FURTHER_VIEWS, of_operator=OPERATORS_VIEWS, themes=THEMES
)


def static(name: str) -> bytes | None:
    """Return a static file by name, or None."""
    found = resources.files("xscl.web") / "static" / name
    return found.read_bytes() if "/" not in name and found.is_file() else None


def page(
    request: Request,
    template: str,
    account: Account | None,
    *,
    status: int = HTTPStatus.OK,
    headers: Mapping[str, str] | None = None,
    **shown: Any,
) -> HTMLResponse:
    """Render a page; `account` is the reader, None without authentication."""
    theme = request.cookies.get(THEME, "auto")
    density = request.cookies.get(DENSITY, "wide")
    text = _TEMPLATES.get_template(template).render(
        account=account,
        signed_in=account is not None and bool(request.cookies.get("xscl_session")),
        theme=theme if theme in THEMES else "auto",
        density=density if density in DENSITIES else "wide",
        here=request.url.path,
        place=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        **shown,
    )
    return HTMLResponse(text, status, {**HEADERS, **(headers or {})})


DAYS = 30
"""Days of a sparkline; the last one ends now."""


def spark(days_ago: Mapping[int, int] | None, what: str) -> Picture | None:
    """Return the sparkline of counts by age in days, None without any; `what` is the noun."""
    if not days_ago:
        return None
    counts = [0] * DAYS
    for ago, count in days_ago.items():
        counts[DAYS - 1 - min(max(ago, 0), DAYS - 1)] += count
    words = f"{counted(sum(counts), what)} in {DAYS} days, at most {max(counts):,} in one"
    return draw_sparkline(counts, words)
