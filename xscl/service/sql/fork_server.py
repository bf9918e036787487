"""The fork server: a process with all modules imported that forks a child for each query.

`python -m xscl.service.sql.fork_server DESCRIPTOR` reads commands from a socket.  A command passes
the descriptors of a snapshot and of a channel to the service.  One child is always pre-forked, with
an open database, and waits for a command.  The fork server itself opens no database, so that it has
no threads when it forks.  It exits when the socket is closed, however the service has ended.
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
    """Pass each command to the pre-forked child until the socket is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps children
    # Signals to the process group are ignored, as the service ends this process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    control.sendall(READY)
    child = _fork_child(control)
    while True:
        command, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not command:
            return
        try:
            socket.send_fds(child, [command], descriptors)
        except OSError:  # it was killed while idle
            child.close()
            child = _fork_child(control)
            socket.send_fds(child, [command], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        child.close()
        child = _fork_child(control)


def _fork_child(control: socket.socket) -> socket.socket:
    """Fork a child; return the socket to it."""
    ours, theirs = socket.socketpair()
    if not os.fork():
        code = 1
        try:
            ours.close()
            control.close()
            _run_child(theirs)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    return ours


def _run_child(command: socket.socket) -> None:
    """Run a child: open a database, wait for a command, run its query."""
    connection = connect()
    asked, descriptors, _, _ = socket.recv_fds(command, 1, 2)
    if asked:
        snapshot, channel = descriptors
        with socket.socket(fileno=channel) as asker:
            answer(connection, asker, snapshot)


if __name__ == "__main__":
    run(socket.socket(fileno=int(sys.argv[1])))
