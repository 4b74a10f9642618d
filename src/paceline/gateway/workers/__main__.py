"""A worker process: `python …/workers/__main__.py CHANNEL_FD LISTENER_FD`, by the head alone.

Signals that mean the whole gateway (Ctrl-C, a service manager's SIGTERM to every process) are the
head's business: it tells the workers. They are ignored before anything is imported that takes its
time; with `-m` the packages around this file would come first.
"""

from __future__ import annotations

import signal
import sys


def _work() -> int:
    import socket

    import uvloop

    from paceline.gateway.logs import start_logging
    from paceline.gateway.workers.work import work

    start_logging()
    channel_fd, listener_fd = (int(argument) for argument in sys.argv[1:])
    return uvloop.run(work(socket.socket(fileno=channel_fd), socket.socket(fileno=listener_fd)))


for _number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(_number, signal.SIG_IGN)
sys.exit(_work())
