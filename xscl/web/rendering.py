"""Rendering of templates, with the headers of the content security policy.

Templates escape everything.  Pictures are the only markup made by code, and lxml serializes them.
"""

from __future__ import annotations

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

from xscl.delivery.cards import MatchView, shortened
from xscl.drawing import Picture
from xscl.service.accounts import Account
from xscl.time_format import duration, moment

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}
"""With `no-referrer` browsers would send `Origin: null` for the forms of this site."""
THEMES = ("auto", "light", "dark")
THEME = "xscl_theme"
"""The cookie of the colour theme."""

VIEWS = (
    ("/", "Matches"),
    ("/items", "Items"),
    ("/subscriptions", "Subscriptions"),
    ("/feeds", "Feeds"),
    ("/witnesses", "Data (SQL)"),
    ("/plan", "Plan"),
    ("/status", "Status"),
    ("/gallery", "Gallery"),
)


def _picture(picture: Picture) -> Markup:
    """Return the markup of a picture, which lxml has escaped."""
    return Markup(picture.svg())


def when(ticks: int | None) -> str:
    """Format a time in UTC for reading; "never" for None."""
    if ticks is None:
        return "never"
    try:
        return datetime.fromtimestamp(ticks / 1e6, UTC).strftime("%d %b %Y, %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return str(ticks)


def _counted(number: int, what: str) -> str:
    """Format a number with its noun: `1 match`, `2,000 matches`."""
    if number == 1:
        return f"1 {what}"
    return f"{number:,} {what}{'es' if what.endswith(('ch', 's')) else 's'}"


def _why_query(match: MatchView) -> str:
    """Return the parameters of the page that explains a match."""
    documents = [("doc", card.document) for card in match.cards]
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
    when=when,
    moment=moment,
    counted=_counted,
    duration=duration,
    query=urlencode,
    shortened=shortened,
    why_query=_why_query,
)
_TEMPLATES.globals.update(views=VIEWS, themes=THEMES)


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
    text = _TEMPLATES.get_template(template).render(
        account=account,
        signed_in=account is not None and bool(request.cookies.get("xscl_session")),
        theme=theme if theme in THEMES else "auto",
        here=request.url.path,
        place=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        **shown,
    )
    return HTMLResponse(text, status, {**HEADERS, **(headers or {})})
