"""The fork server: a process with all modules imported that forks a child for each query.

`python -m xscl.service.sql.fork_server DESCRIPTOR` reads commands from a socket.  A command passes
the descriptors of a snapshot and of a channel to the service, which the child inherits.  The fork
server itself opens no database, so that it has no threads when it forks.  It exits when the socket
is closed, however the service has ended.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from xscl.origins import HiddenModules

READY = b"r"
ASK = b"a"


def run(control: socket.socket) -> None:
    """Fork a child for each command until the socket is closed."""
    sys.meta_path.insert(0, HiddenModules)  # before the imports, which all children share
    from xscl.service.sql.child import answer

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps children
    # Signals to the process group are ignored, as the service ends this process.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    control.sendall(READY)
    while True:
        command, descriptors, _, _ = socket.recv_fds(control, 1, 2)
        if not command:
            return
        snapshot, channel = descriptors
        if not os.fork():
            code = 1
            try:
                control.close()
                with socket.socket(fileno=channel) as asker:
                    answer(asker, snapshot)
                code = 0
            finally:
                os._exit(code)
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    run(socket.socket(fileno=int(sys.argv[1])))
