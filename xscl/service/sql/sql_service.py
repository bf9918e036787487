"""The service's side of users' SQL: limits, snapshots and child processes.

A query needs a slot, a snapshot and a child.  Slots limit concurrent queries.  A user has at most
one, so that queries delay only those of the same user.  Each query has a snapshot of its own, taken
after it has its slot.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from xscl.client.service_answers import SnapshotDate, SqlColumn
from xscl.engine.facade import Engine
from xscl.limiter import FairLimiter, TooManyConcurrent
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import THE_OPERATOR, Account
from xscl.service.sql import errors
from xscl.service.sql.fork_server import ASK, READY
from xscl.service.sql.limits import BEGUN, Form, Limits
from xscl.service.sql.snapshot import Snapshot, publish

_log = logging.getLogger(__name__)

_START = 60.0  # seconds for the imports of the fork server on a busy machine
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class QueryResult:
    """`count` rows, written in a form; `truncated` says that the query has more.

    As JSON the body is an array of rows, and a row an array of values.
    """

    columns: tuple[SqlColumn, ...]
    count: int
    truncated: bool
    seconds: float
    as_of: SnapshotDate
    form: Form
    body: bytes

    def rows(self) -> list[list[Any]]:
        """Return the rows of an answer in the form JSON as lists of values."""
        rows: list[list[Any]] = json.loads(self.body)
        return rows


class UserSql:
    """Runs queries over snapshots of an engine; thread-safe.

    Snapshots are unlinked files in a directory, or in memory.  Close it before the engine.
    """

    def __init__(
        self, engine: Engine, directory: Path | None = None, limits: Limits | None = None
    ) -> None:
        self.limits = limits or Limits()
        self._engine = engine
        # The root of further connections, which are made without the engine's lock.
        self._root = engine.connect()
        self._directory = directory
        self._mutex = threading.Lock()
        # Earlier queries of the same user hold a slot for a bounded time, so they are awaited.
        patience = 2 * (self.limits.seconds + self.limits.grace)
        self._limiter = FairLimiter(
            self.limits.together, self.limits.waiting, patience, waits_for_own=True
        )
        self._fork_server: _ForkServer | None = None
        self._closed = False

    def __enter__(self) -> UserSql:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill the fork server; later queries raise Unavailable."""
        with self._mutex:
            if not self._closed:
                self._root.close()
            self._closed = True
            server, self._fork_server = self._fork_server, None
            if server is not None:
                server.close()

    def ask(
        self,
        question: str,
        viewer: Account = THE_OPERATOR,
        *,
        form: Form = Form.JSON,
        rows: int | None = None,
    ) -> QueryResult:
        """Run a query and return at most `rows` rows; raises a subclass of QueryRefused."""
        limits = self.limits
        _check_text(question, limits)
        rows = limits.rows if rows is None else rows
        if not 1 <= rows <= limits.most_rows:
            raise errors.QueryRefused(f"rows is {rows}, not from 1 to {limits.most_rows:,}")
        request = {"question": question, "form": form, "rows": rows, "limits": asdict(limits)}
        try:
            with (
                self._limiter.hold(viewer.number),
                closing(self._published(viewer, question)) as snapshot,
                closing(self._child(snapshot.descriptor)) as channel,
            ):
                head, body = _exchange(channel, request, limits)
        except TooManyConcurrent as error:
            raise errors.Busy(error.message, hint=error.hint) from None
        if "failed" in head:
            _log.error("a question could not be answered: %s", head["failed"])
            raise errors.Unavailable("the question could not be answered", hint="the log says why")
        if "error" in head:
            raise errors.from_data(**head["error"])
        columns = tuple(SqlColumn(name=name, type=kind) for name, kind in head.pop("columns"))
        return QueryResult(columns, **head, as_of=snapshot.as_of, form=form, body=body)

    def _published(self, viewer: Account, question: str) -> Snapshot:
        """Publish a snapshot of the rows that a user may see, for a query that has its slot."""
        with self._mutex:
            if self._closed:
                raise errors.Unavailable("the service is ending")
            store = self._root.connect_again()
        try:
            with closing(store):
                return publish(self._engine, store, viewer, self._directory, ticks(), question)
        except OSError as error:
            _log.warning("no snapshot can be written: %s", error.strerror)
            raise errors.Unavailable(
                f"no snapshot can be written: {error.strerror}", hint="is the disk full?"
            ) from error

    # -- Children --------------------------------------------------------------------------

    def _child(self, snapshot: int) -> socket.socket:
        """Return a socket to a new child; the first query starts the fork server."""
        with self._mutex:
            if self._closed:
                raise errors.Unavailable("the service is ending")
            if self._fork_server is not None and not self._fork_server.alive:
                self._fork_server.close()
                self._fork_server = None
            self._fork_server = self._fork_server or _ForkServer()
            return self._fork_server.child(snapshot)


class _ForkServer:
    """The process that forks children, one for each query."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair()
        paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "xscl.service.sql.fork_server", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # no environment variable of the service, as some may be secrets
                env={"PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"},
            )
        self._is_ready = False

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def child(self, snapshot: int) -> socket.socket:
        """Return a socket to a new child, which reads the snapshot of a descriptor."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                if not self._is_ready:
                    self._control.settimeout(_START)
                    self._is_ready = self._control.recv(1) == READY
                socket.send_fds(self._control, [ASK], [snapshot, theirs.fileno()])
        except OSError as error:
            ours.close()
            raise errors.Unavailable(
                "no question can be answered now", hint="ask again soon"
            ) from error
        return ours

    def close(self) -> None:
        """Kill the process; a child ends when it has answered, or by its timer."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def _check_text(question: str, limits: Limits) -> None:
    if len(question) > limits.text:
        raise errors.QueryTooLong(
            f"the question has {len(question):,} characters, more than {limits.text:,}",
        )
    if "\0" in question:
        raise errors.NotSelect("the question has a NUL character")
    try:
        question.encode()
    except UnicodeEncodeError:
        raise errors.NotSelect("the question is not a text that can be encoded") from None
    if not question.strip():
        raise errors.NotSelect("there is no question", hint="such as SELECT * FROM documents")


def _exchange(
    channel: socket.socket, request: Mapping[str, Any], limits: Limits
) -> tuple[dict[str, Any], bytes]:
    """Send a request to a child; return the head of its answer and the bytes of the rows."""
    began, answer = time.monotonic(), bytearray()
    try:
        channel.settimeout(limits.seconds + 1.0)  # later than the timer that kills the child
        channel.sendall(json.dumps(request).encode() + b"\n")
        while piece := channel.recv(_PIECE):
            answer += piece
            if len(answer) > 4 * limits.size:
                raise errors.TooLarge("the answer is too large")
    except TimeoutError:
        raise _too_slow(limits) from None
    except ConnectionError:
        pass  # the bytes received so far decide
    if not answer.startswith(BEGUN):  # the child ended before it had read the request
        raise errors.Unavailable("no question can be answered now", hint="ask again soon")
    head, found, body = bytes(answer).removeprefix(BEGUN).partition(b"\n")
    if not found:
        if time.monotonic() > began + limits.seconds:
            raise _too_slow(limits)
        raise errors.TooLarge(
            "the question needs more than there is for one",
            hint="ask for fewer rows, or for shorter values",
        )
    answered: dict[str, Any] = json.loads(head)
    return answered, body


def _too_slow(limits: Limits) -> errors.TooSlow:
    return errors.TooSlow(
        f"the question took longer than {limits.seconds:g} s and was stopped",
        hint="ask for less: a WHERE, fewer relations, fewer rows",
    )
