"""Three small feeds and five subscriptions, written for the demonstration.

In a feed `<?publish n?>` stands before what is published in step n and later
steps, in JSON the member `_publish`; what comes first is there from the start.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources

from lxml import etree


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample feed as a publisher has it: all steps in one body."""

    name: str
    stream: str
    media_type: str
    body: bytes

    def at(self, step: int) -> bytes:
        """Return the feed as it is published up to a step."""
        if self.media_type == "application/feed+json":
            return _json_at(self.body, step)
        return _xml_at(self.body, step)


MEDIA_TYPES = {
    "rss": "application/rss+xml",
    "atom": "application/atom+xml",
    "json": "application/feed+json",
}
STEPS = 3
"""The number of the last step."""


def feeds() -> tuple[Sample, ...]:
    """Return the sample feeds; their file names without the suffix are their streams."""
    files = sorted(resources.files(__name__).iterdir(), key=lambda file: file.name)
    return tuple(
        Sample(file.name, stem, MEDIA_TYPES[suffix], file.read_bytes())
        for file in files
        for stem, _, suffix in [file.name.partition(".")]
        if suffix in MEDIA_TYPES
    )


def subscriptions() -> dict[str, str]:
    """Return the sample queries by name."""
    files = sorted(resources.files(__name__).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".xscl"): file.read_text("utf-8")
        for file in files
        if file.name.endswith(".xscl")
    }


def _xml_at(body: bytes, step: int) -> bytes:
    root = etree.fromstring(body)
    for mark in list(root.iter(etree.PI)):
        parent = mark.getparent()
        if parent is None:
            continue  # it went with an earlier one
        if int(mark.text or 0) > step:
            for later in list(mark.itersiblings()):
                parent.remove(later)
        parent.remove(mark)
    return etree.tostring(root, encoding="UTF-8", xml_declaration=True)


def _json_at(body: bytes, step: int) -> bytes:
    feed = json.loads(body)
    feed["items"] = [item for item in feed["items"] if item.pop("_publish", 0) <= step]
    return json.dumps(feed).encode()
