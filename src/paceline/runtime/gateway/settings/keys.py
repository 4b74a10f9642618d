"""`KeySettings`: the files of keys, and which port requires one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeySettings:
    """Files of keys. A port without a file requires no key."""

    file: Path | None = None
    """API keys of the data port, hashed; None to require none."""
    admin_key_file: Path | None = None
    """Keys of the admin port, in the same form; None to require none, on loopback only."""
    salt_file: Path | None = None
    """Secret from which the tenants' cache salts are derived; None for `file` plus `.salt`."""
    metrics_need_key: bool = False
    """Whether `/metrics` requires the admin key too."""
    audit_file: Path | None = None
    """File of the changes made on the admin port; None to write them to the log."""

    def __post_init__(self) -> None:
        if self.metrics_need_key and self.admin_key_file is None:
            raise ValueError(
                "metrics_need_key is set, but there is no admin key; set keys.admin_key_file too"
            )
        if self.salt_file is not None and self.file is None:
            raise ValueError(
                "salt_file is set, but there are no API keys, so it separates no tenants; set "
                "keys.file too, or remove keys.salt_file"
            )

    @property
    def salt_path(self) -> Path | None:
        """Path of the secret; None without API keys."""
        if self.file is None:
            return None
        return self.salt_file or self.file.with_name(self.file.name + ".salt")
