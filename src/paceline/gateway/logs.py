"""Where do the log's lines go, and in which form? The same for all processes of a gateway."""

from __future__ import annotations

import logging
import sys


def start_logging() -> None:
    """Warnings and errors, to standard error."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="paceline: %(levelname)s: %(message)s"
    )
