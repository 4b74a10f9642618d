"""Entry point of a worker process: `python …/workers/__main__.py CHANNEL_FD LISTENER_FD`.

Only the parent process runs it. Signals addressed to the whole gateway (Ctrl-C, a service
manager's SIGTERM to every process) are handled by the parent, which then stops the workers. The
worker ignores them before it imports anything slow; it is started by path because `-m` would first
import the packages around this file.
"""

from __future__ import annotations

import signal
import sys


def _main() -> int:
    import socket

    import uvloop

    from paceline.runtime.gateway.process import start_logging
    from paceline.runtime.gateway.workers.worker import run_worker

    start_logging()
    channel_fd, listener_fd = (int(argument) for argument in sys.argv[1:])
    return uvloop.run(
        run_worker(socket.socket(fileno=channel_fd), socket.socket(fileno=listener_fd))
    )


for _number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(_number, signal.SIG_IGN)
sys.exit(_main())
