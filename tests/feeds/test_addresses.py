"""Which addresses are refused: the whole table, in every form in which a host can be written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from feeds.http.addresses import (
    FetchTarget,
    RefusedAddress,
    RequestFailed,
    Resolve,
    check,
    expect_fetchable,
    is_public,
)
from feeds.http.addresses import resolve as system_resolve
from feeds.http.domains import registrable
from feeds.http.refused_networks import GLOBAL_UNICAST, REFUSED_IPV4, REFUSED_IPV6, RefusedNetwork
from tests.examples import examples

NOBODY: frozenset[str] = frozenset()
PUBLIC = """
    8.8.8.8 93.184.216.34 1.1.1.1 100.63.255.255 100.128.0.0 172.15.255.255 172.32.0.0 192.0.1.0
    192.88.98.255 192.88.100.0 168.63.129.15 168.63.129.17 198.17.255.255 198.20.0.0
    223.255.255.255 126.255.255.255 128.0.0.0
    2606:2800:220:1::1 2001:200:: 2001:4860:4860::8888 2a00:1450:4001::1 2003::1 2001:db7::1
"""
IN_NO_TABLE = """
    4000::1 0:1::1 200::1 ::ffff:8.8.8.8 ::ffff:0:8.8.8.8 8000::1 fe00::1 64:ff9b:2::1
    2606:2800::5efe:10.0.0.1 2606:2800::200:5efe:10.0.0.1 2606:4700::1%eth0 nonsense
"""


def samples(network: RefusedNetwork) -> Iterator[IPv4Address | IPv6Address]:
    """Yield the first, a middle and the last address of a network."""
    first, last = int(network.network_address), int(network.broadcast_address)
    kind = IPv4Address if network.version == 4 else IPv6Address
    for number in dict.fromkeys((first, (first + last) // 2, last)):
        yield kind(number)


def written(address: IPv4Address | IPv6Address) -> Iterator[str]:
    """Yield an address as hosts of URLs may be written."""
    if isinstance(address, IPv6Address):
        yield from (f"[{address}]", f"[{address.exploded}]", f"[{address.compressed.upper()}]")
        return
    a, b, c, d = address.packed
    number = int(address)
    yield str(address)
    yield f"{address}."
    yield str(number)
    yield f"0x{number:x}"
    yield f"0{number:o}"
    yield f"{a}.{b}.{(c << 8) + d}"
    yield f"{a}.{(b << 16) + (c << 8) + d}"
    yield ".".join(f"0x{part:X}" for part in address.packed)
    yield ".".join(f"0{part:o}" for part in address.packed)
    yield f"0x{a:x}.0{b:o}.{c}.{d}"
    yield str(address).replace(".", "\u3002")
    yield "".join(chr(0xFEE0 + ord(c)) if c.isdecimal() else c for c in str(address))
    yield f"user:password@{address}"
    for prefix in ("::ffff:", "::", "::ffff:0:", "64:ff9b::", "64:ff9b:1::", "fe80::5efe:"):
        yield f"[{prefix}{address}]"
    yield f"[2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1]"
    inverted = ~number & 0xFFFFFFFF
    yield f"[2001:0:4136:e378:8000:63bf:{inverted >> 16:x}:{inverted & 0xFFFF:x}]"


def checked(
    url: str, resolve: Resolve, allowed: frozenset[str] = NOBODY
) -> FetchTarget | RequestFailed:
    try:
        return asyncio.run(check(url, allowed, resolve))
    except RequestFailed as refused:
        return refused


def refusal(url: str) -> RequestFailed | None:
    try:
        expect_fetchable(url, NOBODY)
    except RequestFailed as refused:
        return refused
    return None


async def nobody(host: str, port: int) -> tuple[str, ...]:
    raise AssertionError("nothing may be looked up")


def resolving_to(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> tuple[str, ...]:
        if not addresses:
            raise OSError("no such name")
        return addresses

    return resolve


@pytest.mark.parametrize("network", [*REFUSED_IPV4, *REFUSED_IPV6], ids=str)
def test_w1_w2_networks_of_the_table_are_refused_in_every_form(network: RefusedNetwork) -> None:
    for address in samples(network):
        assert not is_public(str(address)), address
        for host in written(address):
            refused = refusal(f"http://{host}/x")
            assert refused is not None, host
            assert refused.code in ("url_private", "url_invalid"), host
            assert checked(f"http://{host}:8080/", nobody) is not None, host
        hidden = checked("http://name.example/", resolving_to("8.8.8.8", str(address)))
        assert isinstance(hidden, RequestFailed), address
        assert str(hidden) == str(checked("http://name.example/", resolving_to())), address


@pytest.mark.parametrize("address", PUBLIC.split())
def test_public_addresses(address: str) -> None:
    assert is_public(address)
    host = f"[{address}]" if ":" in address else address
    assert refusal(f"http://{host}/") is None
    target = checked("http://name.example/", resolving_to(address))
    assert isinstance(target, FetchTarget)
    assert target.addresses == (address,)


@pytest.mark.parametrize("address", IN_NO_TABLE.split())
def test_ipv6_outside_global_unicast_is_refused(address: str) -> None:
    assert not is_public(address)
    assert isinstance(checked("http://name.example/", resolving_to(address)), RequestFailed)


REGISTERED = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24
    198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 168.63.129.16/32
    ::/96 ::ffff:0:0/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23
    2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10
    ff00::/8
"""


def test_the_table_has_what_the_registries_and_the_clouds_have() -> None:
    refused = {*REFUSED_IPV4, *REFUSED_IPV6}
    assert set(map(ip_network, REGISTERED.split())) <= refused
    for address in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"):
        assert not is_public(address)
    assert IPv4Network("8.0.0.0/8") not in REFUSED_IPV4
    assert IPv6Network("2000::/3") == GLOBAL_UNICAST


@given(st.text("xn-.aü%0🙂[]:@/?#_", max_size=12).map(lambda host: f"http://{host}/"))
@example("http://xn--/")
@example("http://a.xn--a/f")
@example(f"http://{'ü' * 70}.example/")
@examples(500)
def test_an_address_is_one_or_is_refused(url: str) -> None:
    with suppress(RefusedAddress):
        assert expect_fetchable(url, NOBODY).raw_host


def test_what_the_system_resolves_is_judged_too() -> None:
    """The system's resolver reads these without asking anybody."""
    for host in ("127.1", "0x7f.1", "2130706433", "[::1]", "[::ffff:7f00:1]", "localhost"):
        assert isinstance(checked(f"http://{host}/", system_resolve), RequestFailed)


@pytest.mark.parametrize(
    ("allowed", "url", "address"),
    [
        ("127.0.0.1:8081", "http://127.0.0.1:8081/", "127.0.0.1"),
        ("[fd00::1]:80", "http://[fd00::1]/", "fd00::1"),
        ("intranet.example:80", "http://intranet.example/", "10.0.0.1"),
    ],
)
def test_an_exact_host_and_port_can_be_allowed(allowed: str, url: str, address: str) -> None:
    listed = frozenset({allowed})
    target = checked(url, resolving_to(address), listed)
    assert isinstance(target, FetchTarget)
    assert target.addresses == (address,)
    other_port = checked(url.replace(":8081", "").rstrip("/") + ":8443/", resolving_to(address))
    assert isinstance(other_port, RequestFailed)
    assert isinstance(checked(url, resolving_to(address)), RequestFailed)
    for other in ("http://127.0.0.2:8081/", "http://127.1:8081/", "http://other.example/"):
        assert isinstance(checked(other, resolving_to(address), listed), RequestFailed)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("example.org", "example.org"),
        ("blog.Example.org.", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("someone.github.io", "someone.github.io"),
        ("x.someone.github.io", "someone.github.io"),
        ("github.io", "github.io"),
        ("a.xn--bcher-kva.de", "xn--bcher-kva.de"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_registrable(host: str, domain: str) -> None:
    assert registrable(host) == domain
