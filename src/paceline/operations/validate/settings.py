"""The settings of one validation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class ValidationSettings:
    """What is validated and where the report goes."""

    url: str
    admin_url: str | None
    model: str | None
    tier: str
    only: tuple[str, ...]
    """Checks to run; empty: all. A SKIP of one fails the validation, as with `required`."""
    required: tuple[str, ...]
    is_shared: bool
    allows_drain: bool
    audit_seconds: float
    prompts_file: str | None
    baseline: str | None
    """Address of a server of the unquantized model."""
    api_key: str | None
    baseline_api_key: str | None
    admin_key: str | None
    json_file: Path | None
    html_file: Path | None
    key_file: Path | None
    previous_file: Path | None
    resumes: bool

    def all_required(self) -> tuple[str, ...]:
        """The checks whose SKIP fails the validation, each once."""
        return tuple(dict.fromkeys((*self.required, *self.only)))

    def secrets(self) -> tuple[str, ...]:
        """The keys, which no report may show."""
        keys = (self.api_key, self.baseline_api_key, self.admin_key)
        return tuple(dict.fromkeys(key for key in keys if key))

    def config(self) -> dict[str, Any]:
        """The settings that decide what is checked, for the report. No keys."""
        return {
            "only": list(self.only),
            "is_shared": self.is_shared,
            "allows_drain": self.allows_drain,
            "audit_seconds": self.audit_seconds,
            "prompts_file": self.prompts_file,
            "baseline": self.baseline,
        }
