"""The address of a service: binding it, and its URL."""

from __future__ import annotations

import errno
import os
import socket
from ipaddress import ip_address

from xscl.errors import XsclError

_BACKLOG = 1024
_ELSEWHERE = "--host names an address of this machine; 0.0.0.0 or :: are all of them"
_OTHER_PORT = "choose another port with --port; 0 takes any that is free"
_UNREAD = 120_000
"""Milliseconds after which a connection is closed whose client acknowledges no data."""


class CannotListen(XsclError):
    """The port is in use, or the address does not belong to this machine."""

    code = "cannot_listen"


def address_of(host: str, port: int) -> str:
    """Return the URL of a service; its host is loopback if the service listens on all addresses."""
    number = ip_address(host)
    if number.is_unspecified:
        host = "127.0.0.1" if number.version == 4 else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def expect_free(host: str, port: int) -> None:
    """Raise CannotListen for an address at which no server can listen."""
    bound(host, port).close()


def bound(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises CannotListen."""
    try:
        family, *_, place = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, OverflowError) as error:
        raise CannotListen(
            f"{host!r} is no address to listen on: {error}", hint="name one with --host"
        ) from error
    is_ipv6 = family is socket.AF_INET6
    try:
        made = socket.create_server(place, family=family, backlog=_BACKLOG, dualstack_ipv6=is_ipv6)
    except OSError as error:
        raise CannotListen(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0)}",
            hint=_ELSEWHERE if error.errno == errno.EADDRNOTAVAIL else _OTHER_PORT,
        ) from error
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # connections inherit it; Linux has it
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD)
    return made
