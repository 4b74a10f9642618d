"""The search space: which settings are tried, and which of them need a server start.

A file in YAML or JSON:

    restart:
      engine.draft: [auto, ngram, none]      # a setting of paceline.yaml
      --max-num-seqs: [32, 128]              # an argument of vLLM
    live:
      draft_length: [policy, 0, 1, 3, 5]     # policy: as the configuration's policy chooses
      max_in_flight: [4, 8, 16, 32]

With --server-command, the names under `restart` are the fields of the command.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.files.strict_files import load_yaml
from paceline.workbench.tune.values import POLICY, LiveSetting, RestartConfig, Scalar, TuneError

_MAX_CELLS = 2000
"""The search keeps a matrix of all pairs of cells."""
_DRAFT = "engine.draft"


@dataclass(frozen=True, slots=True)
class SearchSpace:
    """The values of every knob."""

    restart: Mapping[str, tuple[Scalar, ...]]
    """By the name of the setting."""
    draft_lengths: tuple[int | None, ...]
    """None: as the policy chooses."""
    max_in_flight: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.draft_lengths or not self.max_in_flight:
            raise TuneError("live.draft_length and live.max_in_flight need at least one value each")
        if not all(self.restart.values()):
            raise TuneError("every setting under restart needs at least one value")
        if self.num_cells > _MAX_CELLS:
            raise TuneError(
                f"the space has {self.num_cells} cells; at most {_MAX_CELLS} are allowed. Leave "
                "out values (--space)"
            )

    @property
    def num_cells(self) -> int:
        """Of the whole grid."""
        size = len(self.draft_lengths) * len(self.max_in_flight)
        for values in self.restart.values():
            size *= len(values)
        return size

    @property
    def needs_governor(self) -> bool:
        """Whether draft lengths are set on the running server."""
        return any(length is not None for length in self.draft_lengths)

    def restart_configs(self) -> list[RestartConfig]:
        """All combinations of the settings that need a start, in the order of the space."""
        return [
            RestartConfig(tuple(zip(self.restart, values, strict=True)))
            for values in itertools.product(*self.restart.values())
        ]

    def live_settings(self, restart: RestartConfig, drafter: str) -> tuple[LiveSetting, ...]:
        """The settings to try on a server; one without a drafter has no draft length to set."""
        drafts = restart.get(_DRAFT) or drafter
        lengths = (None,) if drafts == "none" else self.draft_lengths
        return tuple(
            LiveSetting(length, limit) for length in lengths for limit in self.max_in_flight
        )


def default_space(drafter: str, max_draft_length: int) -> SearchSpace:
    """The space where the user gives none.

    `drafter` is `engine.draft` of the configuration, which is compared with n-gram and with none.
    """
    drafters = tuple(dict.fromkeys((drafter, "ngram", "none")))
    return SearchSpace(
        restart={_DRAFT: drafters, "--max-num-batched-tokens": (2048, 8192)},
        draft_lengths=(None, *(length for length in (1, 3, 5) if length <= max_draft_length)),
        max_in_flight=(4, 8, 16, 32, 64),
    )


def load_space(file: Path) -> SearchSpace:
    """The space in a file. Raises TuneError that names what is wrong."""
    try:
        document = load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TuneError(f"--space {file} cannot be read: {error}") from None
    try:
        return parse_space(document)
    except TuneError as error:
        raise TuneError(f"--space {file}: {error}") from None


def parse_space(document: object) -> SearchSpace:
    """The space in a parsed file."""
    sections = _mapping(document, "the file", ("restart", "live"))
    restart = _mapping(sections.get("restart") or {}, "restart", None)
    live = _mapping(sections.get("live") or {}, "live", ("draft_length", "max_in_flight"))
    limits = _values(live.get("max_in_flight"), "live.max_in_flight")
    if not all(type(limit) is int and limit >= 1 for limit in limits):
        raise TuneError(f"live.max_in_flight is {limits}; give integers of at least 1")
    return SearchSpace(
        restart={
            str(name): _scalars(_values(values, f"restart.{name}"), str(name))
            for name, values in restart.items()
        },
        draft_lengths=tuple(
            map(_draft_length, _values(live.get("draft_length", [POLICY]), "live.draft_length"))
        ),
        max_in_flight=tuple(limits),
    )


def _mapping(value: object, name: str, allowed: Sequence[str] | None) -> Mapping[Any, Any]:
    if not isinstance(value, dict):
        raise TuneError(f"{name} is {value!r}; it must be a mapping, such as restart: …, live: …")
    for key in value:
        if allowed is not None and key not in allowed:
            raise TuneError(
                f"{name} has the unknown key {key!r}; allowed: {', '.join(allowed)}"
                f"{did_you_mean(key, allowed)}"
            )
    return value


def _values(value: object, name: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise TuneError(f"{name} is {value!r}; it must be a list of values to try")
    if len({repr(one) for one in value}) < len(value):
        raise TuneError(f"{name} lists a value twice: {value}")
    return value


def _scalars(values: list[Any], name: str) -> tuple[Scalar, ...]:
    for value in values:
        if not isinstance(value, bool | int | float | str):
            raise TuneError(f"restart.{name} has the value {value!r}; give numbers or texts")
    return tuple(values)


def _draft_length(value: Any) -> int | None:
    if value == POLICY:
        return None
    if type(value) is not int or value < 0:
        raise TuneError(
            f"live.draft_length has the value {value!r}; give {POLICY}, or integers of at least 0"
        )
    return value
