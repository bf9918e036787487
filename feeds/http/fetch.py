"""One polite poll of one feed.

`fetch` sends one request for a feed and returns the outcome: `Fetched`, `NotModified`,
`Gone` or `Failed`.  It is stateless; the `FeedState` in an outcome is the input of the next poll.

- Requests are conditional with both validators of the last 200, byte for byte,
  and only at the address that gave them.  After `UNCONDITIONAL` answers "not
  modified" in a row one request is unconditional, as a server may be wrong.
- Redirects are followed here, at most `REDIRECTS`, each hop checked anew
  (`addresses`); the feed's own headers and credentials go to the origin for which
  they were given, and to the same host by https, and nowhere else.
- Each hop acquires the slot of its domain (`RequestSettings.turn`) and releases it before the
  next hop, so that a limiter can bound the concurrent requests to a domain.
- One deadline by the monotonic clock covers everything but the waiting for slots.  The body is read
  raw and unpacked with a limit; the only encoding is gzip, once.  A body that ends early is an
  error, never a shorter feed.
- A connection serves one request: it is made to an IP address, and a second
  host behind the same address must not inherit it.
- Proxies and the environment are ignored, cookies are not kept.

Messages name no IP address and no credentials.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from urllib.parse import unquote

import httpx

from feeds.formats.discovery import discover, is_page
from feeds.formats.entries import link
from feeds.formats.registry import MEDIA_TYPES
from feeds.formats.times import parse_time
from feeds.http.addresses import FetchTarget, RequestFailed, check
from feeds.http.body import read_body
from feeds.http.connection import DomainBlocked, RequestSettings, Turn, ask
from feeds.http.domains import domain_of
from feeds.http.feed_state import FeedState, basic
from feeds.http.schedule import NO_WISHES, PollHints

REDIRECTS = 5
UNCONDITIONAL = 48
"""The number of consecutive answers "not modified" that are trusted."""

ACCEPT = ", ".join(
    (
        *MEDIA_TYPES,
        "application/xml;q=0.9",
        "text/xml;q=0.9",
        "application/json;q=0.8",
        "*/*;q=0.1",
    )
)

DEFAULT = RequestSettings()


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole body.  `moved_to` is the address to which permanent redirects alone led, or None.

    `cache` are the server's hints for the next poll, `links` the addresses of the header `Link` by
    relation, of each the first.
    """

    state: FeedState
    body: bytes = field(repr=False)
    url: str = field(repr=False)
    content_type: str | None = None
    cache: PollHints = NO_WISHES
    moved_to: str | None = field(default=None, repr=False)
    links: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class NotModified:
    """The feed has not changed (304); `cache` and `moved_to` are as in `Fetched`."""

    state: FeedState
    cache: PollHints = NO_WISHES
    moved_to: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Gone:
    """The feed will not come back (410): stop asking."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed poll; `retry_after` in seconds, `discovered` the feeds of an HTML page.

    `domain` is that of the server whose answer it was, empty without an answer.
    """

    code: str
    message: str
    retry_after: int | None = None
    status: int | None = None
    discovered: tuple[str, ...] = ()
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Deferred:
    """A poll that stopped because the domain of a redirect is blocked for some seconds."""

    seconds: int


Outcome: TypeAlias = Fetched | NotModified | Gone | Failed | Deferred


async def fetch(state: FeedState, *, now: int, settings: RequestSettings = DEFAULT) -> Outcome:
    """Poll the feed once; `now` in microseconds UTC, for `Retry-After` dates."""
    try:
        async with asyncio.timeout(settings.seconds) as deadline:
            return await _follow(state, now, settings, deadline)
    except TimeoutError:
        message = f"the feed did not arrive whole within {settings.seconds:g} s"
        return Failed("fetch_timeout", message)
    except RequestFailed as failure:
        return Failed(failure.code, failure.message)
    except DomainBlocked as later:
        return Deferred(later.seconds)


async def _follow(
    state: FeedState, now: int, settings: RequestSettings, deadline: asyncio.Timeout
) -> Outcome:
    """The outcome at the end of the redirects."""
    url, moved_to, permanent = state.url, None, True
    for _ in range(REDIRECTS + 1):
        target = await check(url, settings.allow_addresses, settings.resolve)
        async with _turn(domain_of(url), settings.turn, deadline):
            answer = await ask(target, "GET", settings, _headers(target, state, url))
            try:
                location = redirect_of(answer, url)
                if location is None:
                    return await _outcome(answer, state, url, moved_to, now, settings)
            finally:
                await answer.aclose()
        permanent = permanent and answer.status_code in (301, 308)
        url = location
        moved_to = url if permanent else moved_to
    return Failed("fetch_redirect", f"there are more than {REDIRECTS} redirects")


@asynccontextmanager
async def _turn(domain: str, turn: Turn, deadline: asyncio.Timeout) -> AsyncIterator[None]:
    """Acquire the slot of a domain; the deadline is suspended while waiting."""
    now = asyncio.get_running_loop().time
    left = (deadline.when() or 0) - now()
    deadline.reschedule(None)
    async with turn(domain):
        deadline.reschedule(now() + left)
        yield


def redirect_of(answer: httpx.Response, url: str) -> str | None:
    """The absolute address that a redirect names; None if the answer is no redirect."""
    if answer.status_code not in (301, 302, 303, 307, 308):
        return None
    named = answer.headers.get("location", "").strip()
    if not named:
        raise RequestFailed("fetch_redirect", "a redirect names no address")
    try:
        joined = httpx.URL(url).join(named)
    except (httpx.InvalidURL, UnicodeError, ValueError):
        raise RequestFailed("fetch_redirect", "a redirect names an invalid address") from None
    if joined.scheme not in ("http", "https"):
        message = "a redirect leads to an address that is not http or https"
        raise RequestFailed("fetch_redirect", message)
    return str(joined.copy_with(fragment=None))


# --- the request ---


def _headers(target: FetchTarget, state: FeedState, url: str) -> list[tuple[bytes, bytes]]:
    """The headers of one hop that depend on the feed."""
    headers = [(b"Accept", ACCEPT.encode()), (b"Accept-Encoding", b"gzip")]
    own = state.headers if _is_at_home(target.url, state) else ()
    headers += [(name.encode("ascii"), value.encode()) for name, value in own]
    if not any(name.lower() == "authorization" for name, _ in own):
        headers += _authorization(target.url, state)
    if _is_conditional(state, url):
        headers += [
            (name, value.encode("latin-1"))
            for name, value in (
                (b"If-None-Match", state.etag),
                (b"If-Modified-Since", state.last_modified),
            )
            if value
        ]
    return headers


def _authorization(url: httpx.URL, state: FeedState) -> list[tuple[bytes, bytes]]:
    """Return a header with user name and password of the hop's address, or of the feed's."""
    written = url.userinfo or (httpx.URL(state.url).userinfo if _is_at_home(url, state) else b"")
    if not written:
        return []
    name, _, password = written.partition(b":")
    return [(b"Authorization", basic(unquote(name.decode()), unquote(password.decode())).encode())]


def _is_at_home(url: httpx.URL, state: FeedState) -> bool:
    """Return True for the origin that may see the credentials, or its https form."""
    home = httpx.URL(state.given_for or state.url)
    if _origin(url) == _origin(home):
        return True
    upgraded = (home.scheme, url.scheme) == ("http", "https")
    return upgraded and home.raw_host == url.raw_host and home.port is None and url.port is None


def _origin(url: httpx.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port


def _is_conditional(state: FeedState, url: str) -> bool:
    """Return True if the validators belong to this address and are still trusted."""
    return url == (state.validated_by or state.url) and state.unchanged < UNCONDITIONAL


# --- the answer ---


async def _outcome(
    answer: httpx.Response,
    state: FeedState,
    url: str,
    moved_to: str | None,
    now: int,
    settings: RequestSettings,
) -> Outcome:
    """Classify the last answer of a chain of redirects."""
    if answer.status_code == 410:
        return Gone()
    if answer.status_code == 304:
        return _not_modified(answer, state, url, moved_to)
    if answer.status_code not in (200, 203):
        message = f"the server answered {answer.status_code} {_reason(answer)}".rstrip()
        wait, domain = retry_after(answer, now), domain_of(url)
        return Failed("fetch_status", message, wait, answer.status_code, domain=domain)
    body = await read_body(answer, settings.largest)
    content_type = answer.headers.get("content-type")
    if is_page(body):
        message = "the answer is a web page, not a feed"
        return Failed("fetch_html", message, status=200, discovered=discover(body, url))
    validated = replace(
        state,
        etag=_raw(answer, b"etag"),
        last_modified=_raw(answer, b"last-modified"),
        validated_by=url,
        unchanged=0,
    )
    links = links_of(answer.headers.get_list("link"), url)
    return Fetched(validated, body, url, content_type, _cache(answer), moved_to, links)


def _not_modified(
    answer: httpx.Response, state: FeedState, url: str, moved_to: str | None
) -> Outcome:
    """Return NotModified, with validators of the 304, or else those of `state`.

    Failed if the request was unconditional.
    """
    if not _is_conditional(state, url) or not (state.etag or state.last_modified):
        message = "the server answered 304 to a request without conditions"
        return Failed("fetch_status", message, status=304)
    refreshed = replace(
        state,
        etag=_raw(answer, b"etag") or state.etag,
        last_modified=_raw(answer, b"last-modified") or state.last_modified,
        unchanged=state.unchanged + 1,
    )
    return NotModified(refreshed, _cache(answer), moved_to)


def _raw(answer: httpx.Response, name: bytes) -> str | None:
    """Return a header as Latin-1, which encodes to the same bytes; None without a value."""
    found = (value for key, value in answer.headers.raw if key.lower() == name)
    return next((value.decode("latin-1") for value in found if value), None)


def _reason(answer: httpx.Response) -> str:
    return "".join(each for each in answer.reason_phrase[:60] if each.isprintable())


# --- headers that are numbers and times ---

_MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,9})(?!\d)", re.IGNORECASE | re.ASCII)
_SECONDS = re.compile(r"\d{1,9}", re.ASCII)


def _cache(answer: httpx.Response) -> PollHints:
    found = _MAX_AGE.search(answer.headers.get("cache-control", ""))
    max_age = int(found[1]) if found else None
    return PollHints(max_age=max_age, expires=parse_time(answer.headers.get("expires")))


def retry_after(answer: httpx.Response, now: int) -> int | None:
    """Return the seconds to wait by `Retry-After`; None without a number or a future date."""
    written = answer.headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(written):
        return int(written)
    date = parse_time(written)
    return (date - now) // 1_000_000 if date is not None and date > now else None


LONGEST = 8_192
"""Characters of the header `Link` that are read."""

_VALUE = re.compile(r"<([^<>]*)>([^<]*)")
_RELATION = re.compile(r";\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s\",;]+))", re.IGNORECASE)


def links_of(values: Sequence[str], base: str) -> dict[str, str]:
    """Return the first address of each relation in headers `Link`; `base` makes it absolute."""
    found: dict[str, str] = {}
    for reference, parameters in _VALUE.findall(", ".join(values)[:LONGEST]):
        named = _RELATION.search(parameters)
        address = link(reference, base)
        if named and address:
            for relation in (named[1] or named[2]).lower().split():
                found.setdefault(relation, address)
    return found
