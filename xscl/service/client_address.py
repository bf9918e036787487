"""The client address of a request, and detection of reverse proxies.

Behind a proxy on this machine every request comes from loopback.  A request with a forwarding
header therefore never counts as local, whoever set the header.  `X-Forwarded-For` is used only on
connections from a trusted proxy (`serve --trusted-proxy`), as any client can set it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any, TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network
AsgiScope: TypeAlias = Mapping[str, Any]
"""The ASGI scope of a request."""

_FORWARDING = frozenset(
    {
        *(b"forwarded", b"forwarded-for", b"via", b"x-real-ip", b"x-client-ip", b"client-ip"),
        *(b"true-client-ip", b"x-cluster-client-ip", b"x-original-forwarded-for"),
        *(b"x-original-host", b"x-proxyuser-ip", b"x-envoy-external-address", b"cdn-loop"),
        *(b"cf-connecting-ip", b"cf-ray", b"fastly-client-ip", b"fly-client-ip"),
        *(b"x-azure-clientip", b"x-amzn-trace-id"),
    }
)
_FORWARDED_FOR = b"x-forwarded-for"


def network_of(text: str) -> Network:
    """Return the network that a CIDR or a single address names; raises ValueError.

    A network of all addresses is refused: it would let every client name its own address.
    """
    found = ip_network(text.strip(), strict=False)
    if found.prefixlen == 0:
        raise ValueError("it has all addresses")
    return found


def is_loopback(host: str) -> bool:
    """Return True for `localhost` and for a loopback address."""
    found = literal_address(host)
    return host == "localhost" or (found is not None and found.is_loopback)


def is_forwarded(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return True if a request has a header that proxies set; `headers` have lower-case names."""
    return any(name in _FORWARDING or name.startswith(b"x-forwarded") for name, _ in headers)


def is_trusted(address: str, proxies: Sequence[Network]) -> bool:
    """Return True if an address is that of a trusted proxy."""
    found = literal_address(address) if proxies else None
    return found is not None and any(found in network for network in proxies)


def peer_of(scope: AsgiScope) -> str:
    """Return the peer address of the connection, "" if there is none."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def client_of(scope: AsgiScope, proxies: Sequence[Network]) -> str:
    """Return the client address: the peer's, or the one that trusted proxies report.

    Each proxy appends the address of its peer, so the list is read from the end while the addresses
    are those of trusted proxies.  Earlier entries may be forged.
    """
    found = peer_of(scope)
    if not is_trusted(found, proxies):
        return found
    values = [value for name, value in scope["headers"] if name == _FORWARDED_FOR]
    for part in reversed(b",".join(values).decode("latin-1").split(",")):
        address = literal_address(without_port(part.strip()))
        if address is None:
            break
        found = str(address)
        if not is_trusted(found, proxies):
            break
    return found


def is_https(scope: AsgiScope, proxies: Sequence[Network]) -> bool:
    """Return True if the client uses HTTPS, by the connection or by a trusted proxy's header."""
    if scope["scheme"] == "https":
        return True
    if not is_trusted(peer_of(scope), proxies):
        return False
    said = [value for name, value in scope["headers"] if name == b"x-forwarded-proto"]
    return said == [b"https"]


def bucket_of(address: str) -> str:
    """Return the rate-limit key of an address: itself, or the /64 of an IPv6 address."""
    found = literal_address(address)
    if isinstance(found, IPv6Address):
        return str(ip_network((int(found) >> 64 << 64, 64)))
    return address if found is None else str(found)


def without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


@lru_cache(maxsize=1_000)
def literal_address(text: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in a text, None for a host name; IPv4-mapped IPv6 becomes IPv4."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped
    return found
