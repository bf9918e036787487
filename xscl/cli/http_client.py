"""HTTP client of a running service, with the errors of the command line.

An error carries the place in the query that was sent, so messages, carets and exit codes are those
of the same command on a data directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from xscl.cli.argument_files import file_text
from xscl.cli.output import UsageError, warn
from xscl.client import Client, Refused, calls
from xscl.client.calls import PAGE
from xscl.errors import XsclError


class HttpClient(Client):
    """Client of a service that returns JSON as it is, for printing."""

    def value(self, path: str, **parameters: Any) -> Any:
        """Return the JSON value of a GET; parameters that are None are left out."""
        given = {name: value for name, value in parameters.items() if value is not None}
        return self.ask("GET", path, params=given).json()

    def all_of(self, path: str) -> Iterator[Any]:
        """Yield the items of a list, page by page."""
        after = None
        while True:
            page = self.value(path, limit=PAGE, after=after)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def failure(self, answer: httpx.Response, source: str | None) -> XsclError:
        """Return the error of a problem document, with the hint for the command line."""
        error = super().failure(answer, source)
        if isinstance(error, Refused) and error.problem == "unauthorized":
            hint = error.hint or ""
            if hint.startswith("send 'Authorization"):
                error.hint = (
                    "give a token with --token @FILE or XSCL_TOKEN; 'xscl token create' makes one"
                )
        return error


def client_at(url: str, token: str | None) -> HttpClient:
    """Return a client of the service at an address; warn of a token sent in the clear."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise UsageError(
            f"{url!r} is no address of a service", hint="such as http://127.0.0.1:8425"
        )
    if parts.username or parts.password:
        raise UsageError(
            "a user's name and password do not belong into the address", hint="--token"
        )
    client = HttpClient(url, token_of(token))
    if client.has_token and parts.scheme == "http" and not _is_loopback(parts.hostname):
        warn(f"warning: the token goes to {parts.hostname} unencrypted; use https")
    return client


def resource(*parts: str, slashes: bool = False) -> str:
    """Return the path of a resource under /v1, its names quoted."""
    try:
        return calls.resource(*parts, slashes=slashes)
    except ValueError as error:
        raise UsageError(str(error), hint="names without '/' can") from None


def token_of(given: str | None) -> str | None:
    """Return a token; `@file` names the file that holds it."""
    if given is None or not given.startswith("@"):
        return given or None
    return file_text(Path(given[1:]).expanduser(), "the token in").strip() or None


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
