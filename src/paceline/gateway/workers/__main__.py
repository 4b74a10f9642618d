"""A worker process: `python -m paceline.gateway.workers CHANNEL_FD LISTENER_FD`, by the head alone.

Signals that mean the whole gateway (Ctrl-C, a service manager's SIGTERM to every process) are the
head's business: it tells the workers.
"""

from __future__ import annotations

import signal
import socket
import sys

import uvloop

from paceline.gateway.logs import start_logging
from paceline.gateway.workers.work import work

for _number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(_number, signal.SIG_IGN)
start_logging()
_channel_fd, _listener_fd = (int(argument) for argument in sys.argv[1:])
sys.exit(uvloop.run(work(socket.socket(fileno=_channel_fd), socket.socket(fileno=_listener_fd))))
