"""Which served path a client means that asks for one that is not served.

Clients add a path to their base URL, and most mistakes are in that URL: `/v1` is missing or
doubled, a path of the API is part of it, or it ends with a slash.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.foundation.command_line.near_names import nearest
from paceline.runtime.gateway.http.errors import Problem

_ROOT = "/v1"
_MIN_SIMILARITY = 0.8
"""Of two paths, by `difflib`: /v1/completion and /v1/completions have 0.97. Chosen empirically."""
_MAX_CHARS = 200
"""Of a path that is compared, and shown."""
_MAX_PARTS = 8


def path_not_served(path: str, served: Sequence[str]) -> Problem:
    """The 404 for this path; `served` are those of the API, under /v1."""
    path = path[:_MAX_CHARS]
    near = nearest_path(path, served)
    hint = f"it serves {', '.join(served)}"
    if near is not None and _is_below(path, near, served):
        hint = f"it serves {near}, and nothing below it"
    elif near is not None:
        hint = f"it serves {near}. The base URL of a client ends in {_ROOT}, once, and in no slash"
    return Problem(404, f"This port does not serve {path!r}; {hint}.", "not_found")


def _is_below(path: str, near: str, served: Sequence[str]) -> bool:
    """Whether a client with the right base URL asks for more than `near`, such as an item of it."""
    rest = path.removeprefix(f"{near}/")
    return rest not in ("", path) and nearest_path(rest, served) is None


def nearest_path(path: str, served: Sequence[str]) -> str | None:
    """The served path whose parts are in this one, else one that is spelt much like it.

    >>> nearest_path("/v1/v1/models/", ["/v1/models"]), nearest_path("/models/m", ["/v1/models"])
    ('/v1/models', '/v1/models')
    """
    parts = [part for part in path.lower().split("/") if part][-_MAX_PARTS:]
    for start in range(len(parts)):
        for end in range(len(parts), start, -1):
            one = "/".join([_ROOT, *parts[start:end]])
            if one in served:
                return one
    return nearest("/" + "/".join(parts), served, _MIN_SIMILARITY)
