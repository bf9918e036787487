"""Networks that feeds are never fetched from and webhooks never posted to.

Sources, as of 2025-10-09:

- IANA IPv4 Special-Purpose Address Registry, https://www.iana.org/assignments/iana-ipv4-special-registry
- IANA IPv6 Special-Purpose Address Registry, https://www.iana.org/assignments/iana-ipv6-special-registry
- IANA IPv4 and IPv6 Multicast Address Space registries
- RFC 3879 (site-local), RFC 4291 (IPv4-compatible), RFC 3701 (6bone)
- the cloud providers' documentation of their metadata services

A registry entry is listed even if the registry calls it globally reachable: anycast services such
as AS112 or PCP serve no feeds.  Translation prefixes are refused whole, whatever IPv4 address they
carry (docs/decisions/access.md).  Entries inside a listed network are left out, such as most
addresses of metadata services.

IPv4 addresses outside the table are public.  IPv6 addresses are public only inside
`GLOBAL_UNICAST` and outside the table.
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network
from typing import TypeAlias

RefusedNetwork: TypeAlias = IPv4Network | IPv6Network

GLOBAL_UNICAST = IPv6Network("2000::/3")
"""The only block from which IANA assigns global unicast IPv6 addresses."""

_IPV4 = """
    0.0.0.0/8           this network
    10.0.0.0/8          private use
    100.64.0.0/10       shared address space
    127.0.0.0/8         loopback
    168.63.129.16/32    cloud metadata: Azure
    169.254.0.0/16      link-local
    172.16.0.0/12       private use
    192.0.0.0/24        IETF protocol assignments
    192.0.2.0/24        documentation
    192.31.196.0/24     AS112
    192.52.193.0/24     AMT
    192.88.99.0/24      6to4 relay anycast, deprecated
    192.168.0.0/16      private use
    192.175.48.0/24     AS112, direct delegation
    198.18.0.0/15       benchmarking
    198.51.100.0/24     documentation
    203.0.113.0/24      documentation
    224.0.0.0/4         multicast
    240.0.0.0/4         reserved
"""

_IPV6 = """
    ::/96               IPv4-compatible, deprecated
    ::ffff:0:0/96       IPv4-mapped
    ::ffff:0:0:0/96     IPv4-translated (SIIT)
    64:ff9b::/96        NAT64, well-known prefix
    64:ff9b:1::/48      NAT64, local use
    100::/64            discard only
    100:0:0:1::/64      dummy prefix
    2001::/23           IETF protocol assignments
    2001:db8::/32       documentation
    2002::/16           6to4
    2620:4f:8000::/48   AS112, direct delegation
    3ffe::/16           6bone, returned
    3fff::/20           documentation
    5f00::/16           segment routing identifiers
    fc00::/7            unique local
    fe80::/10           link-local
    fec0::/10           site-local, deprecated
    ff00::/8            multicast
"""


REFUSED_IPV4 = tuple(IPv4Network(line.split()[0]) for line in _IPV4.strip().splitlines())
REFUSED_IPV6 = tuple(IPv6Network(line.split()[0]) for line in _IPV6.strip().splitlines())
