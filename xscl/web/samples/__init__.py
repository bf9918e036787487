"""Three small feeds and five subscriptions, written for the demonstration.

In an XML feed the items after `<?publish N?>` are published from step N on, in JSON the items with
the member `_publish` N; all others are published from the start.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from importlib import resources

from lxml import etree


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample feed; `body` has the items of all steps."""

    name: str
    stream: str
    media_type: str
    body: bytes

    def at(self, step: int) -> bytes:
        """Return the feed as it is published in a step."""
        if self.media_type == "application/feed+json":
            return _json_at(self.body, step)
        return _xml_at(self.body, step)

    def later(self, by: timedelta) -> Sample:
        """Return the feed with all its dates moved by `by`."""

        def moved(date: re.Match[bytes]) -> bytes:
            text = date[0].decode()
            time = _time(text) + by
            is_iso = text[0].isdigit()
            return (f"{time:%Y-%m-%dT%H:%M:%SZ}" if is_iso else format_datetime(time)).encode()

        return replace(self, body=_DATES.sub(moved, self.body))


MEDIA_TYPES = {
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "json": "application/feed+json",
}
_DATES = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \w{3}"
)
STEPS = 4
"""The number of the last step."""


def feeds() -> tuple[Sample, ...]:
    """Return the sample feeds; their file names without the suffix are their streams."""
    return tuple(
        Sample(f"{stem}.{suffix}", stem, MEDIA_TYPES[suffix], body)
        for stem, suffix, body in _files()
        if suffix in MEDIA_TYPES
    )


def feeds_until(now: datetime) -> tuple[Sample, ...]:
    """Return the sample feeds, moved in time so that the last date in them is `now`."""
    found = feeds()
    last = max(_time(date.decode()) for one in found for date in _DATES.findall(one.body))
    return tuple(one.later(now - last) for one in found)


def _time(date: str) -> datetime:
    """Return the time in a text of ISO 8601 or RFC 5322."""
    return datetime.fromisoformat(date) if date[0].isdigit() else parsedate_to_datetime(date)


def subscriptions() -> dict[str, str]:
    """Return the sample queries by name."""
    return {stem: body.decode() for stem, suffix, body in _files() if suffix == "xscl"}


def _files() -> Iterator[tuple[str, str, bytes]]:
    """Yield the sample files in the order of their names: stem, suffix and content."""
    for file in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name):
        stem, _, suffix = file.name.partition(".")
        if file.is_file():
            yield stem, suffix, file.read_bytes()


def _xml_at(body: bytes, step: int) -> bytes:
    root = etree.fromstring(body)
    for mark in list(root.iter(etree.PI)):
        parent = mark.getparent()
        if parent is None:
            continue  # removed with the items after an earlier mark
        if int(mark.text or 0) > step:
            for later in list(mark.itersiblings()):
                parent.remove(later)
        parent.remove(mark)
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _json_at(body: bytes, step: int) -> bytes:
    feed = json.loads(body)
    feed["items"] = [item for item in feed["items"] if item.pop("_publish", 0) <= step]
    return json.dumps(feed).encode()
