"""Options of `paceline serve` that every test of it needs."""

from __future__ import annotations

from collections.abc import Sequence


def free_ports_but(arguments: Sequence[str]) -> list[str]:
    """Options for any free ports, without those that the arguments give."""
    options = (option for option in ("--port", "--admin-port") if option not in arguments)
    return [text for option in options for text in (option, "0")]
