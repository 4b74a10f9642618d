"""Where this user's caches are: `$XDG_CACHE_HOME/paceline`, by default `~/.cache/paceline`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def user_cache(environ: Mapping[str, str]) -> Path | None:
    """Paceline's folder in the user's cache; None where that is unknown or not absolute."""
    home = environ.get("HOME", "")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    return Path(cache, "paceline") if cache.startswith("/") else None
