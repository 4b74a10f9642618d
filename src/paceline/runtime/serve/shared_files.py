"""Refuse one file that two settings name, by whichever names.

Keys of clients without a role would open the admin port; lines of the audit would make a file of
keys, or of settings, unusable; a replica would get a secret of this server as its key.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from paceline.runtime.config import LoadedSettings
from paceline.runtime.gateway.settings import KeySettings


def refuse_shared_files(loaded: LoadedSettings) -> None:
    """Raise ValueError if two settings name the same file; entries of `replicas` may share theirs.

    The message has no path: that of a `key_file` may be the key itself, given by mistake.
    """
    keys = KeySettings(**dict(loaded.settings.keys))
    own = {
        "keys.file": keys.file,
        "keys.admin_key_file": keys.admin_key_file,
        "keys.salt_file": keys.salt_path,
        "keys.audit_file": keys.audit_file,
    }
    for origin in loaded.origins.values():
        if origin.layer == "file":
            own["the settings file"] = Path(origin.detail)
    seen: dict[object, str] = {}
    for name, path in own.items():
        for identity in _identities(path):
            _refuse_second(name, seen.get(identity))
            seen[identity] = name
    for index, replica in enumerate(loaded.settings.replicas):
        for identity in _identities(replica.key_file):
            _refuse_second(f"replicas.{index}.key_file", seen.get(identity))


def _refuse_second(name: str, first: str | None) -> None:
    if first is not None:
        raise ValueError(f"{first} and {name} are the same file; give each its own")


def _identities(path: Path | None) -> Iterator[object]:
    """What two names of one file have in common: the file itself, if it exists, and its place."""
    if path is not None:
        with contextlib.suppress(OSError):
            status = path.stat()
            yield status.st_dev, status.st_ino
        yield os.path.realpath(path)
