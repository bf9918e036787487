"""The body of an HTTP answer: read raw, unpacked here, bounded, and whole or not at all.

HTTP clients unpack without a limit, so half a megabyte may become five
hundred.  Here every piece is bounded before it is kept, and a body that ends
early is an error, never a shorter feed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

import httpx

from feeds.http.addresses import RequestFailed


async def read_body(answer: httpx.Response, largest: int) -> bytes:
    """The whole body, unpacked; raises `RequestFailed` if it is too large, cut off or damaged."""
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "x-gzip"):
        raise RequestFailed(
            "fetch_encoding", f"the answer is packed as {coding[:40]!r}, not as gzip"
        )
    packed = _bounded(answer, largest)
    unpacked = _unzip(packed) if "gzip" in coding else packed
    pieces, size = [], 0
    try:
        async for piece in unpacked:
            size += len(piece)
            if size > largest:
                raise RequestFailed("fetch_too_large", f"the feed has more than {largest:,} bytes")
            pieces.append(piece)
    except zlib.error:
        raise RequestFailed(
            "fetch_encoding", "the answer is not the gzip that it claims to be"
        ) from None
    except (httpx.HTTPError, OSError):
        raise RequestFailed(
            "fetch_incomplete", "the answer ended before all of it had come"
        ) from None
    return b"".join(pieces)


async def _bounded(answer: httpx.Response, largest: int) -> AsyncIterator[bytes]:
    """Yield the raw body as it arrives; raises `RequestFailed` once it exceeds `largest` bytes."""
    size = 0
    async for piece in answer.aiter_raw():
        size += len(piece)
        if size > largest:
            raise RequestFailed("fetch_too_large", f"the feed has more than {largest:,} bytes")
        yield piece
        await asyncio.sleep(0)  # a fast sender must not keep the deadline from being seen


_PIECE = 1 << 18


async def _unzip(packed: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The unpacked body in pieces of bounded size; gzip members may follow one another.

    Bytes after the last member that begin no other one are dropped, as browsers do.
    """
    inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
    begun = False
    async for piece in packed:
        begun = begun or bool(piece)
        while piece:
            if inflate.eof:
                if not piece.startswith(b"\x1f"):
                    break
                inflate = zlib.decompressobj(16 + zlib.MAX_WBITS)
            yield inflate.decompress(piece, _PIECE)
            piece = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
    while not inflate.eof and (rest := inflate.decompress(b"", _PIECE)):
        yield rest
    if begun and not inflate.eof:
        raise RequestFailed("fetch_incomplete", "the answer ended before all of it had come")
