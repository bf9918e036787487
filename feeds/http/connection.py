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
import ssl
from collections.abc import Sequence

import httpx

from feeds.http.addresses import FetchTarget
from feeds.http.body import ReadAborted

TRIED = 4
"""Addresses of a host that are tried, at most."""


async def ask(
    target: FetchTarget,
    method: str,
    headers: Sequence[tuple[bytes, bytes]],
    *,
    content: bytes | None = None,
    seconds: float,
) -> httpx.Response:
    """The answer's head, from the first of the target's addresses that takes the connection.

    The caller reads the body and closes the answer.  Raises `ReadAborted`.  Connecting has a
    share of the time, so that a filtered port is reported in the words of a closed one.
    """
    timeouts = dict.fromkeys(("read", "write", "pool"), seconds)
    timeouts["connect"] = seconds / (TRIED + 1)
    for address in target.addresses[:TRIED]:
        request = httpx.Request(
            method,
            target.url.copy_with(host=address, username=None, password=None, fragment=None),
            headers=headers,
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
                raise ReadAborted("fetch_certificate", message) from None
        except httpx.RemoteProtocolError:
            raise ReadAborted("fetch_protocol", "the server's answer is not valid HTTP") from None
        except (httpx.HTTPError, OSError):
            break
    raise ReadAborted("fetch_unreachable", "the server cannot be reached")


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
