"""A running service, as the command line asks it: over HTTP, with the errors of the packages.

The service that has a data directory has written its address there (`Home.address`); `--url` names
any other.  A problem document becomes the error that the same command would have raised without a
service, with the place in the query that was sent, so messages, carets and exit codes are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from xscl.cli.output import Misuse, complain
from xscl.errors import NameTaken, NotSupported, QueryError, TooComplex, XsclError
from xscl.home import Home

PAGE = 1_000
"""Items that are asked for at once."""

_PATIENCE = httpx.Timeout(600.0, connect=5.0)
_TRIES = 60  # for a service that is busy, a second or more apart
_LATER = (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
_QUERIES: Mapping[str, type[QueryError]] = {
    one.code: one for one in (QueryError, NotSupported, TooComplex)
}


class Unreachable(XsclError):
    """There is no service where one was looked for, or it does not answer."""

    code = "unreachable"


class Refused(XsclError):
    """What a service has answered in place of what was asked for.

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


@dataclass(frozen=True, slots=True)
class Remote:
    """A service; `token` says who asks."""

    address: str
    token: str | None = field(default=None, repr=False)
    client: httpx.Client = field(init=False, repr=False)

    def __post_init__(self) -> None:
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        # Neither proxies nor passwords of the environment: a token goes where it was sent.
        client = httpx.Client(
            base_url=self.address, headers=headers, timeout=_PATIENCE, trust_env=False
        )
        object.__setattr__(self, "client", client)

    def __enter__(self) -> Remote:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()

    def ask(
        self, method: str, path: str, *, source: str | None = None, **request: Any
    ) -> httpx.Response:
        """Return a good answer; raises what is wrong, at its place in `source` if it is a query."""
        answer = self._send(method, path, request)
        if answer.is_success:
            return answer
        raise _error(answer, source)

    def fetch(self, path: str) -> Iterator[bytes]:
        """Yield what a POST is answered with, piece by piece."""
        try:
            with self.client.stream("POST", path) as answer:
                if not answer.is_success:
                    answer.read()
                    raise _error(answer, None)
                yield from answer.iter_raw()
        except httpx.HTTPError as error:
            raise Unreachable(
                f"the service at {self.address} has broken off: {error or type(error)}"
            ) from error

    def get(self, path: str, **parameters: Any) -> Any:
        """Return what is at an address, as a value."""
        wanted = {name: value for name, value in parameters.items() if value is not None}
        return self.ask("GET", path, params=wanted).json()

    def all_of(self, path: str, **parameters: Any) -> Iterator[Any]:
        """Yield the items of a list, page by page."""
        after = None
        while True:
            page = self.get(path, limit=PAGE, after=after, **parameters)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return

    def figures(self) -> dict[str, Any] | None:
        """Return the figures of the service, None if they are not for who asks."""
        found: dict[str, Any] | None = self.get("/v1/status")["service"]
        return found

    def caught_up(self) -> bool:
        """Wait until what was sent is taken in; return whether that could be seen."""
        began = self.figures()
        if began is None:
            return False
        now = began
        while now["written"] == began["written"]:
            now = self._look()
        target = now["spool"]
        while now["position"] < target:
            now = self._look()
        return True

    def _look(self) -> dict[str, Any]:
        time.sleep(0.05)
        found = self.figures()
        assert found is not None
        return found

    def _send(self, method: str, path: str, request: dict[str, Any]) -> httpx.Response:
        """Return an answer; a service that has no room now is asked again when it says so."""
        for _ in range(_TRIES):
            try:
                answer = self.client.request(method, path, **request)
            except httpx.HTTPError as error:
                raise Unreachable(
                    f"the service at {self.address} does not answer: {error or type(error)}",
                    hint="is 'xscl serve' running there, on that port?"
                    " --url or XSCL_URL names another one",
                ) from error
            wait = answer.headers.get("retry-after", "")
            if answer.status_code not in _LATER or not wait.isdecimal() or int(wait) > 10:
                break
            time.sleep(int(wait))
        return answer


def reached(data: Path, url: str | None, token: str | None) -> Remote | None:
    """Return the service that is meant, None if none runs on the data directory."""
    if url is None:
        address = Home(data.expanduser().absolute()).address()
        return None if address is None else Remote(address, _token(token))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise Misuse(f"{url!r} is no address of a service", hint="such as http://127.0.0.1:8425")
    if parts.username or parts.password:
        raise Misuse("a user's name and password do not belong into the address", hint="--token")
    remote = Remote(url.rstrip("/").removesuffix("/v1"), _token(token))
    if remote.token is not None and parts.scheme == "http" and not _is_here(parts.hostname):
        complain(f"warning: the token goes to {parts.hostname} unencrypted; use https")
    return remote


def place(*parts: str, slashes: bool = False) -> str:
    """Return the path of a resource under /v1, its names quoted."""
    for part in parts:
        if part in ("", ".", "..") or ("/" in part and not slashes):
            raise Misuse(
                f"a service cannot be asked for {part!r}: its name cannot stand in an address",
                hint="names without '/' can",
            )
    return "/".join(("/v1", *(quote(part, safe=":") for part in parts)))


def _token(given: str | None) -> str | None:
    """Return a token; `@file` stands for the one in a file."""
    if given is None or not given.startswith("@"):
        return given or None
    path = Path(given[1:]).expanduser()
    try:
        return path.read_text("utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Misuse(f"the token in {path} cannot be read: {reason}") from None


def _is_here(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _error(answer: httpx.Response, source: str | None) -> XsclError:
    """Return the error that a problem document tells."""
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
    """Return a hint for the command line in place of one for programs."""
    if code == "unauthorized" and (hint or "").startswith("send 'Authorization"):
        return "give a token with --token @FILE or XSCL_TOKEN; 'xscl token create' makes one"
    return hint
