"""`did_you_mean`: the allowed name that a wrong one resembles, for the end of an error message."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MIN_LIKENESS = 0.7
"""By `difflib`: smolm and smollm2 have 0.83, nonsense and none 0.67. Chosen empirically."""


def nearest(given: str, allowed: Iterable[str], min_likeness: float = MIN_LIKENESS) -> str | None:
    """Return the allowed name that is most like `given` in any letters; None if none is.

    >>> nearest("Smolm", ["smollm2", "bundled"])
    'smollm2'
    """
    by_folded = {name.casefold(): name for name in allowed}
    found = difflib.get_close_matches(given.casefold(), by_folded, n=1, cutoff=min_likeness)
    return by_folded[found[0]] if found else None


def did_you_mean(given: object, allowed: Iterable[str]) -> str:
    """Return the end of a message about a wrong name; empty where no allowed name is like it.

    >>> did_you_mean("goodputt", ["goodput", "fixed"]), did_you_mean("x", ["goodput", "fixed"])
    ('; did you mean goodput?', '')
    """
    near = nearest(given, allowed) if isinstance(given, str) else None
    return "" if near is None else f"; did you mean {near}?"
