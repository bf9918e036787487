"""A followed feed: its state, and the part that may be shown.

The key names the feed in the ids of its items.  It is made from the host and a
hash of the address as it was first given, and never changes, wherever the feed
moves.  User name and password are taken out of the address and become a header;
headers are secret: never shown, and sent only to the origin that they were given for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit, urlunsplit

from feeds.formats.entries import without_user
from feeds.http.domains import domain_of
from feeds.http.feed_state import FeedState, basic
from xscl.errors import XsclError
from xscl.language.names import (
    EVERYTHING,
    LONGEST_NAME,
    LONGEST_STREAM,
    NAME,
    OUTSIDE,
    owner_prefix,
)

EVERY = 3_600
"""Seconds between two polls of a feed, unless the feed or its user asks for another interval."""

LEAST_EVERY = 60
"""Least seconds between two polls of a feed."""

LOST_AFTER = 7 * 24 * 3_600 * 1_000_000
"""Ticks of nothing but failures after which a feed counts as lost; it is polled once a day."""

REFUSALS = frozenset({"url_private", "url_port"})
"""Codes of errors for addresses that xscl does not request: private ones, unusual ports."""

SECOND = 1_000_000
_HOUR = 3_600 * SECOND
_SECRET = re.compile(
    r"([?&;][^=&;]*(?:token|key|secret|pass|pwd|auth|sig|session|sid)[^=&;]*=)[^&;]+", re.IGNORECASE
)
HIDDEN = "***"

State: TypeAlias = Literal["new", "ok", "failing", "lost", "gone", "refused"]
Headers: TypeAlias = tuple[tuple[str, str], ...]


class FeedsError(XsclError):
    """A feed cannot be added or found."""

    code = "feeds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed(FeedState):
    """A followed feed, with the state that its next poll needs.

    Times are ticks, `every` and `ttl` are seconds.

    `polls` counts the good answers, `failures` the bad ones since the last
    good one; `code` and `error` are those of the last bad one.  `moved_to` is
    where permanent redirects led in the last `moved_polls` good answers.
    `hub` is the WebSub hub that the feed names, `topic` its own address there.  `title` is that in
    the feed, `given_title` the user's name for it.  `last_item` is the time of its newest item.
    `header_names` are those of `headers`, also if their values are lost.
    """

    key: str
    stream: str
    tags: tuple[str, ...]
    every: int
    added: int
    header_names: tuple[str, ...] = field(default=(), compare=False)
    title: str = ""
    given_title: str = ""
    site_url: str = ""
    format: str = ""
    quality: str = ""
    note: str | None = None
    ttl: int | None = None
    skip_hours: str = ""
    skip_days: str = ""
    polled: int | None = None
    next_poll: int = 0
    polls: int = 0
    failures: int = 0
    failing_since: int | None = None
    code: str | None = None
    error: str | None = None
    gone: bool = False
    moved_to: str | None = field(default=None, repr=False)
    moved_polls: int = 0
    hub: str | None = None
    topic: str | None = None
    last_item: int | None = None

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams that the feed's items belong to, each once."""
        return tuple(dict.fromkeys((self.stream, *self.tags, self.owner + EVERYTHING)))

    @property
    def shown_title(self) -> str:
        """The user's name for the feed, else its title, which may be empty."""
        return self.given_title or self.title

    @property
    def owner(self) -> str:
        """The prefix of the names of its user; empty for a public feed."""
        return owner_prefix(self.key)

    @property
    def source(self) -> str:
        """The name of the feed in its items: the key, whoever follows the feed."""
        return self.key.removeprefix(self.owner)

    @property
    def domain(self) -> str:
        """The registrable domain; one feed of a domain is polled at a time."""
        return domain_of(self.url)

    @property
    def shown_url(self) -> str:
        """The address without user name and password, and without what looks like a key."""
        return shown(self.url)

    @property
    def place(self) -> str:
        """The feed's host and port, in the form of `--allow-address`."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def lateness(self) -> int:
        """The lateness of this feed's items, in ticks."""
        return lateness_of(self.every)

    @property
    def state(self) -> State:
        if self.gone:
            return "gone"
        if self.error is None:
            return "ok" if self.polls else "new"
        if self.code in REFUSALS and not self.failures:
            return "refused"
        since, now = self.failing_since, self.polled
        lost = since is not None and now is not None and now - since >= LOST_AFTER
        return "lost" if lost else "failing"


def lateness_of(every: int) -> int:
    """Return the lateness in ticks of feeds that are polled every `every` seconds."""
    return max(_HOUR, 2 * every * SECOND)


# -- Addresses -----------------------------------------------------------------------------


def is_url(url: str) -> bool:
    """Return True for an address by http or https."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # it raises ValueError for a wrong port
        return parts.scheme in ("http", "https") and bool(parts.hostname) and url.isprintable()
    except ValueError:
        return False


LONGEST_URL = 4_000
"""Most characters of an address that are kept."""


def printable(text: str, most: int) -> str:
    """Return the first `most` printable characters of a text, the form in which it is kept."""
    return "".join(filter(str.isprintable, text[: 2 * most])).strip()[:most]


def title_of(text: str) -> str:
    """Return the title of a feed as it is kept."""
    return printable(text, LONGEST_NAME)


def site_of(url: str) -> str:
    """Return the address of the site of a feed as it is kept."""
    return printable(url, LONGEST_URL)


def check_url(url: str) -> None:
    """Raise FeedsError if a text is no address of a feed."""
    if not is_url(url) or " " in url:
        hint = "it begins with http:// or https://"
        told = _SECRET.sub(rf"\1{HIDDEN}", re.sub(r"//[^/]*@", "//", url))
        raise FeedsError(f"{told[:200]!r} is no address of a feed", hint=hint)


def feed_key(url: str) -> str:
    """Return the key of a feed, the prefix of its items' ids."""
    digest = hashlib.blake2b(url.encode(), digest_size=5).hexdigest()
    return f"{urlsplit(url).hostname or 'feed'}-{digest}"


def shown(url: str) -> str:
    """Return an address with its secrets masked."""
    return _SECRET.sub(rf"\1{HIDDEN}", without_user(url))


def public(url: str) -> str:
    """Return an address without any possible secret, the query included."""
    return urlunsplit(urlsplit(without_user(url))._replace(query="", fragment=""))


def split_user(url: str) -> tuple[str, Headers]:
    """Return an address without user name and password, and these as a header."""
    user, at, _ = urlsplit(url).netloc.rpartition("@")
    if not at:
        return url, ()
    name, _, password = user.partition(":")
    return without_user(url), (("Authorization", basic(unquote(name), unquote(password))),)


# -- Headers -------------------------------------------------------------------------------

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "host",
        "if-modified-since",
        "if-none-match",
        "range",
        "te",
        "transfer-encoding",
        "user-agent",
    }
)


LONGEST_HEADER = 8_000
"""Most characters of a header of a feed's requests."""


def read_header(text: str) -> tuple[str, str]:
    """Return name and value of `Name: value`; raises FeedsError, whose message lacks the value."""
    name, colon, value = text.partition(":")
    name, value = name.strip(), value.strip()
    if len(text) > LONGEST_HEADER:
        message = f"a header has at most {LONGEST_HEADER:,} characters, and this one {len(text):,}"
        raise FeedsError(message, hint="give a shorter token")
    if not colon or not _TOKEN.fullmatch(name) or not value.isprintable() or not value:
        raise FeedsError("a header is written 'Name: value'", hint="such as 'X-Token: abc'")
    if name.lower() in _OURS:
        raise FeedsError(f"the header {name} is not given for a feed: the fetcher sets it")
    return name, value


# -- Names of streams ----------------------------------------------------------------------


def stream_name(url: str) -> str:
    """Return a name for a feed's stream: its host, as far as XSCL permits it as a name."""
    host = (urlsplit(url).hostname or "feed").removeprefix("www.")
    name = _unowned(re.sub(r"[^\w.]|^(?=\d)", "_", host))
    return name if re.fullmatch(NAME, name) else "feed"


def tag_name(text: str) -> str:
    """Return the stream name of a folder's name; empty if no character is permitted."""
    name = re.sub(r"[^\w.-]+", "-", re.sub(OUTSIDE, " ", text)).strip("-.")
    name = name[: LONGEST_STREAM - 1]
    return _unowned(f"_{name}" if name and not re.match(NAME, name) else name)


def _unowned(name: str) -> str:
    """Return a generated name changed so that it has no user's prefix, as `_127.0.0.1` has."""
    return f"feed{name}" if owner_prefix(name) else name


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, with a number if it is taken."""
    used = taken if isinstance(taken, (set, frozenset, dict)) else set(taken)
    numbered = (f"{name}_{number}" for number in count(2))
    return name if name not in used else next(each for each in numbered if each not in used)
