"""One request over a connection of its own, to an address that was checked.

The caller has a `FetchTarget` from `addresses.check`: the connection goes to one of its IP
addresses, with the name in the certificate's check and in the `Host` header.  It serves one
request, since a second host behind the same address must not inherit it.  Proxies and
the environment are ignored, redirects are not followed, cookies are not kept.

Messages name no IP address, and are the same for a port that is closed, one behind a wall and a
host that does not exist.
"""

from __future__ import annotations

import functools
import importlib.metadata
import ssl
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

import httpx

from feeds.http.addresses import FetchTarget, RequestFailed, Resolve, resolve

TRIED = 4
"""Addresses of a host that are tried, at most."""

CONTACT = "https://example.org/xscl"
"""The contact in the User-Agent, for publishers, unless the operator sets one."""

Turn: TypeAlias = Callable[[str], AbstractAsyncContextManager[None]]
"""Acquires the slot of a registrable domain; raises `DomainBlocked` if polls have to wait."""


class DomainBlocked(Exception):
    """No request may go to a domain for the next `seconds`."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"not to be asked for {seconds} s")
        self.seconds = seconds


def _at_once(domain: str) -> AbstractAsyncContextManager[None]:
    return nullcontext()


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """Options of requests; `allow_addresses` lists exact `host:port` that need not be public.

    `contact` is where publishers reach whoever asks them, `seconds` the limit of a whole poll, and
    `largest` that of a body in bytes.
    """

    allow_addresses: Collection[str] = frozenset()
    seconds: float = 30.0
    resolve: Resolve = resolve
    contact: str = CONTACT
    largest: int = 10_000_000
    turn: Turn = _at_once


async def ask(
    target: FetchTarget,
    method: str,
    settings: RequestSettings,
    headers: Iterable[tuple[bytes, bytes]],
    content: bytes | None = None,
) -> httpx.Response:
    """The answer's head, from the first of the target's addresses that takes the connection.

    The caller reads the body and closes the answer.  Raises `RequestFailed`.  Connecting has a
    timeout below that of the poll, so that a filtered port is reported as a closed one is.
    """
    timeouts = dict.fromkeys(("read", "write", "pool"), settings.seconds)
    timeouts["connect"] = settings.seconds / (TRIED + 1)
    sent = [
        (b"Host", target.url.netloc),
        (b"User-Agent", _user_agent(settings.contact)),
        *headers,
        *([] if content is None else [(b"Content-Length", b"%d" % len(content))]),
        (b"Connection", b"close"),
    ]
    for address in target.addresses[:TRIED]:
        request = httpx.Request(
            method,
            target.url.copy_with(host=address, username=None, password=None, fragment=None),
            headers=sent,
            content=content,
            extensions={
                "sni_hostname": target.url.raw_host.decode("ascii"),
                "timeout": timeouts,
            },
        )
        try:
            return await _transport(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                message = "the server's certificate is not valid for its name"
                raise RequestFailed("fetch_certificate", message) from None
        except httpx.RemoteProtocolError:
            message = "the server's answer is not valid HTTP"
            raise RequestFailed("fetch_protocol", message) from None
        except (httpx.HTTPError, OSError):
            break
    raise RequestFailed("fetch_unreachable", "the server cannot be reached")


@functools.cache
def _user_agent(contact: str) -> bytes:
    try:
        version = importlib.metadata.version("xscl")
    except importlib.metadata.PackageNotFoundError:
        version = "0"
    return f"xscl/{version} (+{contact})".encode()


async def _transport(request: httpx.Request) -> httpx.Response:
    """The head of an answer over a connection of its own, which closes with the answer."""
    limits = httpx.Limits(max_connections=1, max_keepalive_connections=0)
    transport = httpx.AsyncHTTPTransport(verify=_trusted(), trust_env=False, limits=limits)
    try:
        return await transport.handle_async_request(request)
    except BaseException:
        await transport.aclose()
        raise


@functools.cache
def _trusted() -> ssl.SSLContext:
    """The certificates that are trusted; loading them takes a while."""
    return httpx.create_ssl_context(trust_env=False)
