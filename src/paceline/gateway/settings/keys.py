"""Where do the keys lie, and what is asked of whom?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeySettings:
    """Files of keys. Without one, its port asks for none."""

    file: Path | None = None
    """API keys of the data port, hashed; None leaves the port open."""
    admin_key_file: Path | None = None
    """Keys of the admin port, in the same form; None leaves it open, on loopback only."""
    salt_file: Path | None = None
    """The secret behind the tenants' cache salts; None for `file` with `.salt` added."""
    metrics_need_key: bool = False
    """Whether `/metrics` asks for the admin key too."""

    def __post_init__(self) -> None:
        if self.metrics_need_key and self.admin_key_file is None:
            raise ValueError(
                "metrics_need_key is set, but there is no admin key; set keys.admin_key_file"
            )

    @property
    def salt_path(self) -> Path | None:
        """Where the salt's secret lies; None without API keys."""
        if self.file is None:
            return None
        return self.salt_file or self.file.with_name(self.file.name + ".salt")
