"""Set-up of each process that runs a part of the gateway: logging and memory."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import sys
import textwrap
from typing import Any

_M_MMAP_THRESHOLD = -3  # of glibc's malloc.h
_LARGE_BLOCK_BYTES = 256 * 1024
"""Chosen empirically: bodies and events are rarely as large, and mapping one takes microseconds."""

_ESCAPES = {code: repr(chr(code))[1:-1] for code in (*range(0x20), *range(0x7F, 0xA0))}
"""Control characters, and what the log shows instead: a line end, for example, as \\n."""
_ESCAPES |= {0x2028: "\\u2028", 0x2029: "\\u2029"}


class OneLineFormatter(logging.Formatter):
    """Keeps each message on one line: it may quote what a replica or a client sent.

    A line end could make a quoted text look like an entry of its own, and an escape sequence
    changes what a terminal shows. The traceback of an exception follows on lines of its own.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).translate(_ESCAPES)

    def formatException(self, ei: Any) -> str:
        """The traceback, indented: no line of it can look like an entry."""
        return textwrap.indent(super().formatException(ei), "    ", lambda line: True)


def start_logging() -> None:
    """Log warnings and errors to standard error, in the same form for all processes."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLineFormatter("paceline: %(levelname)s: %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)


def return_large_blocks() -> None:
    """Have the allocator give large blocks back to the system as soon as they are freed.

    By default glibc keeps blocks of up to 32 MiB once one was freed: after four events of 10 MB the
    process held 2 to 64 MiB more than before. Other C libraries are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK_BYTES)


def return_freed_memory() -> None:
    """Have the allocator give all free pages back to the system.

    By default glibc keeps those below the last block in use: after 1,000 streams whose clients read
    slowly, nearly all. Other C libraries are left as they are.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
