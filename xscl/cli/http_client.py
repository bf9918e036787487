"""HTTP client of a running service; a problem document becomes the error of the packages.

An error carries the place in the query that was sent, so messages, carets and exit codes are those
of the same command on a data directory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from xscl.cli.argument_files import file_text
from xscl.cli.output import UsageError, warn
from xscl.errors import NameTaken, NotSupported, QueryError, TooComplex, XsclError

PAGE = 1_000
"""Items requested at once."""

CONNECT = 5.0
"""Seconds until a connection has to be there."""

PATIENCE = 600.0
"""Seconds until an answer has to begin; a trial or a backup takes long."""

_TRIES = 60  # for a busy service, a second or more apart
_LATER = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_QUERIES: Mapping[str, type[QueryError]] = {
    one.code: one for one in (QueryError, NotSupported, TooComplex)
}


class Unreachable(XsclError):
    """No service answers at the address."""

    code = "unreachable"


class Refused(XsclError):
    """A problem document in place of the answer.

    `status` is HTTP's; `problem` is the stable code of the problem; `line` and `column` are a place
    in the query of a row.
    """

    code = "refused"
    line: int | None = None
    column: int | None = None

    def __init__(self, status: int, problem: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.problem = problem


class HttpClient(httpx.Client):
    """Connection to the service at an address; a token authenticates the requests.

    Proxies and passwords of the environment are not used: the token goes to this address only.
    """

    def __init__(self, address: str, token: str | None = None) -> None:
        self.address = address
        self.has_token = token is not None
        super().__init__(
            base_url=address,
            headers={} if token is None else {"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(PATIENCE, connect=CONNECT),
            trust_env=False,
        )

    def ask(
        self, method: str, path: str, *, source: str | None = None, **request: Any
    ) -> httpx.Response:
        """Return a successful answer.

        Raises the error of the problem document, at its place in `source` if that is a query.
        """
        answer = self._send(method, path, request)
        if answer.is_success:
            return answer
        raise _error(answer, source)

    def fetch(self, path: str) -> Iterator[bytes]:
        """Yield the body of the answer to a POST, piece by piece."""
        try:
            with self.stream("POST", path) as answer:
                if not answer.is_success:
                    answer.read()
                    raise _error(answer, None)
                yield from answer.iter_raw()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

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

    def _send(self, method: str, path: str, request: dict[str, Any]) -> httpx.Response:
        """Return an answer; retry after the time that a busy service names."""
        for _ in range(_TRIES):
            try:
                answer = self.request(method, path, **request)
            except httpx.HTTPError as error:
                raise self._unreachable(error) from error
            wait = answer.headers.get("retry-after", "")
            if answer.status_code not in _LATER or not wait.isdecimal() or int(wait) > 10:
                break
            time.sleep(int(wait))
        return answer

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        """Return the error of a connection that failed, timed out or was closed."""
        match error:
            case httpx.ConnectTimeout():
                return Unreachable(
                    f"there was no connection to the service at {self.address} within"
                    f" {CONNECT:.0f} s",
                    hint="the machine is not reachable, or the service has no free connection now",
                )
            case httpx.ConnectError():
                return Unreachable(
                    f"the service at {self.address} does not answer: {error or type(error)}",
                    hint="is 'xscl serve' running there, on that port?"
                    " --url or XSCL_URL names another one",
                )
            case httpx.TimeoutException():
                return Unreachable(
                    f"the service at {self.address} accepted the connection, but sent no answer"
                    f" within {PATIENCE:.0f} s",
                    hint="it is busy, not stopped, and may still do what was asked:"
                    " 'xscl status' shows what waits",
                )
            case _:
                return Unreachable(
                    f"the service at {self.address} closed the connection:"
                    f" {error or type(error).__name__}",
                    hint="it stopped or was restarted; 'xscl status' shows whether it runs",
                )


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
    client = HttpClient(url.rstrip("/").removesuffix("/v1"), token_of(token))
    if client.has_token and parts.scheme == "http" and not _is_loopback(parts.hostname):
        warn(f"warning: the token goes to {parts.hostname} unencrypted; use https")
    return client


def resource(*parts: str, slashes: bool = False) -> str:
    """Return the path of a resource under /v1, its names quoted."""
    for part in parts:
        if part in ("", ".", "..") or ("/" in part and not slashes):
            raise UsageError(
                f"a service cannot be asked for {part!r}: its name cannot stand in an address",
                hint="names without '/' can",
            )
    return "/".join(("/v1", *(quote(part, safe=":") for part in parts)))


def token_of(given: str | None) -> str | None:
    """Return a token; `@file` names the file that holds it."""
    if given is None or not given.startswith("@"):
        return given or None
    return file_text(Path(given[1:]).expanduser(), "the token in").strip() or None


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _error(answer: httpx.Response, source: str | None) -> XsclError:
    """Return the error of a problem document."""
    try:
        problem = answer.json()
        code, message = str(problem["code"]), str(problem["detail"])
    except (ValueError, TypeError, KeyError):
        return Refused(
            answer.status_code,
            "no_problem",
            f"{answer.request.url.host} answers {answer.status_code} {answer.reason_phrase}",
            "is it an xscl service of this release?",
        )
    hint, line, column = (problem.get(name) for name in ("hint", "line", "column"))
    if source is not None and code in _QUERIES and column is not None:
        return _QUERIES[code](message, source, line, column, hint)
    error: NameTaken | Refused
    if code == NameTaken.code:
        error = NameTaken(message, hint=hint)
    else:
        error = Refused(answer.status_code, code, message, _hint(code, hint))
        error.line, error.column = line, column
    error.row = problem.get("row")
    return error


def _hint(code: str, hint: str | None) -> str | None:
    """Return the hint for the command line where the service has one for programs."""
    if code == "unauthorized" and (hint or "").startswith("send 'Authorization"):
        return "give a token with --token @FILE or XSCL_TOKEN; 'xscl token create' makes one"
    return hint
