"""The input: documents by number, a feed by the number of its answer, subscriptions.

A document n has the time of n milliseconds, a key `k` in common with every third, and an `f` of
its own, which an item of the feed may have as its title.  Some documents are malformed.  Keys and
windows are such that brute force says what is to come out (`tests.kills.checker`).
"""

from __future__ import annotations

from feeds.documents import Document

DAY = 86_400_000_000
STREAM = "S"
SIZE = 4
"""Documents in a batch."""

SUBSCRIPTIONS = (
    ("pairs", "S//a[./k->x] FOLLOWED BY{x = y, 8 ms} S//a[./k->y] PUBLISH hits"),
    ("hits", "hits//a[./k->x]"),
    ("next", "S//a[./k->x] NEXT{x = y} S//a[./k->y]"),
    ("gaps", "S//a[./k->x] NOT FOLLOWED BY{x = y, 3 ms} S//a[./k->y]"),
    ("news", "S//a[./f->x] JOIN{x = y, 2 d} feeds//item[./title->y]"),
)


def documents(batch: int, base: int) -> list[Document]:
    """Return the documents of a batch, a day after `base`: the feed's clock stays behind theirs."""
    numbers = range(SIZE * batch, SIZE * (batch + 1))
    return [Document(STREAM, f"d{n}", base + DAY + 1_000 * n, _text(n)) for n in numbers]


def _text(number: int) -> bytes:
    text = f"<a><k>k{number % 3}</k><f>f{number}</f></a>"
    return (text[:-4] if number % 11 == 7 else text).encode()


def sent_twice(batch: int) -> bool:
    """Return True if a batch is sent a second time although it was acknowledged."""
    return batch % 5 == 4


def sent_again(batch: int) -> bool:
    """Return True if a batch is sent again after a kill before its acknowledgement."""
    return batch % 2 == 1


# -- The feed ------------------------------------------------------------------------------

_NEW = 2  # items that an answer has more than the one before
_SHOWN = 60  # items in an answer, at most


def known(answer: int) -> int:
    """Return the number of items that a reader knows after an answer and all before it."""
    return _NEW * (answer // 2 + 1)


def guid(item: int) -> str:
    return f"g{item}"


def title(item: int) -> str:
    return f"f{7 * item}"


def answer(number: int) -> bytes:
    """Return an answer of the feed's server; every second one is as the one before."""
    last = known(number)
    items = "".join(
        f"<item><guid>{guid(item)}</guid><title>{title(item)}</title></item>"
        for item in reversed(range(max(0, last - _SHOWN), last))
    )
    body = f'<rss version="2.0"><channel><title>Sample</title>{items}</channel></rss>'
    head = f'HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nETag: "{last}"\r\n\r\n'
    return (head + body).encode()
