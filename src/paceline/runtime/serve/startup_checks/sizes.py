"""Print a number of bytes."""

from __future__ import annotations

_MIB = 1024**2
_GIB = 1024**3


def size_text(num_bytes: float) -> str:
    """In MiB below one GiB, else in GiB.

    >>> size_text(22 * 1024**2), size_text(1.5 * 1024**3)
    ('22 MiB', '1.5 GiB')
    """
    if num_bytes < _GIB:
        return f"{num_bytes / _MIB:,.0f} MiB"
    return f"{num_bytes / _GIB:,.1f} GiB"
