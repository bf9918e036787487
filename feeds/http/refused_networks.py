"""Networks that feeds are never fetched from and webhooks never posted to.

Sources, as of 2025-10-09:

- IANA IPv4 Special-Purpose Address Registry, https://www.iana.org/assignments/iana-ipv4-special-registry
- IANA IPv6 Special-Purpose Address Registry, https://www.iana.org/assignments/iana-ipv6-special-registry
- IANA IPv4 and IPv6 Multicast Address Space registries
- RFC 3879 (site-local), RFC 4291 (IPv4-compatible), RFC 3701 (6bone)
- the cloud providers' documentation of their metadata services

A registry entry is listed even if the registry calls it globally reachable: anycast services such
as AS112 or PCP serve no feeds.  Translation prefixes are refused whole, whatever IPv4 address they
carry (docs/decisions/access.md).  Entries inside a listed network are listed too, so that the table
can be compared with the registries row by row.

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
    0.0.0.0/32          this host on this network
    10.0.0.0/8          private use
    100.64.0.0/10       shared address space
    100.100.100.200/32  cloud metadata: Alibaba
    127.0.0.0/8         loopback
    168.63.129.16/32    cloud metadata: Azure
    169.254.0.0/16      link-local
    169.254.169.254/32  cloud metadata: AWS, Azure, Google, Oracle and others
    169.254.170.2/32    cloud metadata: AWS containers
    169.254.170.23/32   cloud metadata: AWS EKS pods
    169.254.42.42/32    cloud metadata: Scaleway
    172.16.0.0/12       private use
    192.0.0.0/24        IETF protocol assignments
    192.0.0.0/29        IPv4 service continuity prefix
    192.0.0.8/32        IPv4 dummy address
    192.0.0.9/32        Port Control Protocol anycast
    192.0.0.10/32       TURN anycast
    192.0.0.170/32      NAT64/DNS64 discovery
    192.0.0.171/32      NAT64/DNS64 discovery
    192.0.0.192/32      cloud metadata: Oracle, former address
    192.0.2.0/24        documentation
    192.31.196.0/24     AS112
    192.52.193.0/24     AMT
    192.88.99.0/24      6to4 relay anycast, deprecated
    192.88.99.2/32      6a44 relay anycast
    192.168.0.0/16      private use
    192.175.48.0/24     AS112, direct delegation
    198.18.0.0/15       benchmarking
    198.51.100.0/24     documentation
    203.0.113.0/24      documentation
    224.0.0.0/4         multicast
    240.0.0.0/4         reserved
    255.255.255.255/32  limited broadcast
"""

_IPV6 = """
    ::/128              unspecified
    ::1/128             loopback
    ::/96               IPv4-compatible, deprecated
    ::ffff:0:0/96       IPv4-mapped
    ::ffff:0:0:0/96     IPv4-translated (SIIT)
    64:ff9b::/96        NAT64, well-known prefix
    64:ff9b:1::/48      NAT64, local use
    100::/64            discard only
    100:0:0:1::/64      dummy prefix
    2001::/23           IETF protocol assignments
    2001::/32           Teredo
    2001:1::1/128       Port Control Protocol anycast
    2001:1::2/128       TURN anycast
    2001:1::3/128       DNS-SD service registration anycast
    2001:2::/48         benchmarking
    2001:3::/32         AMT
    2001:4:112::/48     AS112
    2001:10::/28        ORCHID, deprecated
    2001:20::/28        ORCHIDv2
    2001:30::/28        drone remote identification
    2001:db8::/32       documentation
    2002::/16           6to4
    2620:4f:8000::/48   AS112, direct delegation
    3ffe::/16           6bone, returned
    3fff::/20           documentation
    5f00::/16           segment routing identifiers
    fc00::/7            unique local
    fd00:42::42/128     cloud metadata: Scaleway
    fd00:c1::a9fe:a9fe/128  cloud metadata: Oracle
    fd00:ec2::23/128    cloud metadata: AWS EKS pods
    fd00:ec2::254/128   cloud metadata: AWS
    fd20:ce::254/128    cloud metadata: Google
    fe80::/10           link-local
    fec0::/10           site-local, deprecated
    ff00::/8            multicast
"""


def _rows(table: str) -> list[tuple[str, str]]:
    lines = (line.strip().partition(" ") for line in table.strip().splitlines())
    return [(network, name.strip()) for network, _, name in lines]


REFUSED_IPV4 = {IPv4Network(network): name for network, name in _rows(_IPV4)}
REFUSED_IPV6 = {IPv6Network(network): name for network, name in _rows(_IPV6)}
