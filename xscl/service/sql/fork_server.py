"""The nursery: a process that has loaded everything, and forks a child for each question.

`python -m xscl.service.sql.fork_server DESCRIPTOR` reads commands from a socket: each has the
descriptors
of a snapshot and of a channel to whoever asks.  One child is always ready: it has a database, and
waits for these.  The nursery itself opens none, so that it has no threads when it forks.  It ends
when the socket is closed, however the service has ended.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from xscl.service.sql.child import answer, connect

READY = b"r"
ASK = b"a"


def run(control: socket.socket) -> None:
    """Hand each question to the child that is ready, until the socket is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are buried by the kernel
    for number in (signal.SIGINT, signal.SIGTERM):  # of a whole group; the service ends us
        signal.signal(number, signal.SIG_IGN)
    control.sendall(READY)
    child = _born(control)
    while True:
        command, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not command:
            return
        try:
            socket.send_fds(child, [command], descriptors)
        except OSError:  # it was killed while it waited
            child.close()
            child = _born(control)
            socket.send_fds(child, [command], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        child.close()
        child = _born(control)


def _born(control: socket.socket) -> socket.socket:
    """Return the way to a new child."""
    ours, theirs = socket.socketpair()
    if not os.fork():
        code = 1
        try:
            ours.close()
            control.close()
            _live(theirs)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    return ours


def _live(command: socket.socket) -> None:
    """Be a child: make ready, wait for a question, answer it."""
    connection = connect()
    asked, descriptors, _, _ = socket.recv_fds(command, 1, 2)
    if asked:
        snapshot, channel = descriptors
        with socket.socket(fileno=channel) as asker:
            answer(connection, asker, snapshot)


if __name__ == "__main__":
    run(socket.socket(fileno=int(sys.argv[1])))
