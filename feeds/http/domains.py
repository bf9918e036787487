"""The registrable domain of a host, by the public suffix list.

`blog.example.co.uk` belongs to `example.co.uk`; `someone.github.io` stands for itself,
as the list says that anybody may have a name below `github.io`.  The list comes with
the package `publicsuffixlist`; nothing is fetched for it.
"""

from __future__ import annotations

import functools
import ipaddress
from urllib.parse import urlsplit

from publicsuffixlist import PublicSuffixList


@functools.lru_cache(maxsize=100_000)
def registrable(host: str) -> str:
    """The registrable domain of a host; the host itself if it has none, as an IP address."""
    host = host.lower().rstrip(".")
    if _is_address(host):
        return host
    return _suffixes().privatesuffix(host) or host


def domain_of(url: str) -> str:
    """The registrable domain of an address's host; empty if it has none."""
    return registrable(urlsplit(url).hostname or "")


@functools.cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True
