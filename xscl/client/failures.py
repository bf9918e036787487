"""Failures of calls: a problem document, or a broken connection, as the error of the packages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx

from xscl.errors import NameTaken, NotSupported, QueryError, TooComplex, XsclError

_QUERIES: Mapping[str, type[QueryError]] = {
    one.code: one for one in (QueryError, NotSupported, TooComplex)
}


class Unreachable(XsclError):
    """No service answers at the address."""

    code = "unreachable"


class Unaddressable(XsclError, ValueError):
    """A name that cannot stand in the address of a resource."""

    code = "misuse"


class Refused(XsclError):
    """A problem document in place of the answer.

    `status` is HTTP's; `problem` is the stable code of the problem; `line` and `column` are the
    place in the query of the row `row`, if it is about one.
    """

    code = "refused"
    line: int | None = None
    column: int | None = None

    def __init__(self, status: int, problem: str, message: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.problem = problem


_FOREIGN = (ValueError, TypeError, KeyError, RecursionError)
"""Errors of reading an answer that no service of this release gives."""


def _foreign(answer: httpx.Response) -> Refused:
    return Refused(
        answer.status_code,
        "no_problem",
        f"{answer.request.url.host} answers {answer.status_code} {answer.reason_phrase}",
        "is it an xscl service of this release?",
    )


@contextmanager
def reading(answer: httpx.Response) -> Iterator[None]:
    """Raise Refused if the block cannot read an answer: no service of this release gives it."""
    try:
        yield
    except XsclError:
        raise
    except _FOREIGN as error:
        raise _foreign(answer) from error


def failure(answer: httpx.Response, source: str | None = None) -> XsclError:
    """Return the error of a problem document, at its place in `source` if that is a query."""
    try:
        problem = answer.json()
        code, message = str(problem["code"]), str(problem["detail"])
    except _FOREIGN:
        return _foreign(answer)
    hint, line, column = (problem.get(name) for name in ("hint", "line", "column"))
    if source is not None and code in _QUERIES and column is not None:
        return _QUERIES[code](message, source, line, column, hint)
    error: NameTaken | Refused
    if code == NameTaken.code:
        error = NameTaken(message, hint=hint)
    else:
        error = Refused(answer.status_code, code, message, hint)
        error.line, error.column = line, column
    error.row = problem.get("row")
    return error


def unreachable(address: str, error: httpx.HTTPError, timeout: httpx.Timeout) -> Unreachable:
    """Return the error of a connection that failed, timed out or was closed."""
    match error:
        case httpx.ConnectTimeout():
            return Unreachable(
                f"there was no connection to the service at {address} within"
                f" {timeout.connect or 0:.0f} s",
                hint="the machine is not reachable, or the service has no free connection now",
            )
        case httpx.ConnectError():
            return Unreachable(
                f"the service at {address} does not answer: {error or type(error)}",
                hint="is 'xscl serve' running there, on that port?",
            )
        case httpx.TimeoutException():
            return Unreachable(
                f"the service at {address} accepted the connection, but sent no answer"
                f" within {timeout.read or 0:.0f} s",
                hint="it is busy, not stopped, and may still do what was asked:"
                " 'xscl status' shows what waits",
            )
        case _:
            return Unreachable(
                f"the service at {address} closed the connection: {error or type(error).__name__}",
                hint="it stopped or was restarted; 'xscl status' shows whether it runs",
            )
