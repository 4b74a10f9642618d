"""What is tuned and what was measured: configurations, settings, trials, measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Scalar = bool | int | float | str

POLICY = "policy"
"""How a space and a report name the draft length that the configuration's policy chooses."""


class TuneError(Exception):
    """The tuning cannot take place. The message says why and what to change."""


@dataclass(frozen=True, slots=True)
class RestartConfig:
    """Settings that need a server start: names with values, in the order of the space."""

    settings: tuple[tuple[str, Scalar], ...]

    @property
    def label(self) -> str:
        """For people: `engine.draft=ngram --max-num-seqs=64`."""
        return " ".join(f"{name}={value}" for name, value in self.settings) or "as configured"

    def get(self, name: str) -> Scalar | None:
        """The value of a setting; None if the configuration does not name it."""
        return dict(self.settings).get(name)


@dataclass(frozen=True, slots=True)
class LiveSetting:
    """Settings that change on a running server."""

    draft_length: int | None
    """Held by the governor; None leaves the length to the configuration's policy."""
    max_in_flight: int
    """Requests in flight at a time, over all replicas."""

    @property
    def label(self) -> str:
        """For people: `draft_length=3 max_in_flight=16`."""
        length = POLICY if self.draft_length is None else self.draft_length
        return f"draft_length={length} max_in_flight={self.max_in_flight}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of the grid: everything that is tuned has a value."""

    restart: RestartConfig
    live: LiveSetting

    @property
    def label(self) -> str:
        """For people."""
        return f"{self.restart.label} {self.live.label}"


class Purpose(StrEnum):
    """What the requests of a trial are for. No two purposes have a prompt in common."""

    SEARCH = "search"
    """To estimate the settings."""
    QUALIFYING = "qualifying"
    """To decide whether a finalist meets the SLO."""
    HELD_OUT = "held_out"
    """To report a finalist that does. They decide nothing."""

    @property
    def label(self) -> str:
        """For people: `held-out`."""
        return self.value.replace("_", "-")


@dataclass(frozen=True, slots=True)
class Trial:
    """One block of load on one cell. Equal purpose and sequence mean equal requests."""

    cell: Cell
    purpose: Purpose
    sequence: int
    """Number of the request sequence; the n-th block of every cell sends sequence n."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The figures of one trial, over its window."""

    good_requests_per_s: float
    """Requests that meet the SLO."""
    requests_per_s: float
    output_tokens_per_s: float
    num_requests: int
    """Due in the window, also failed ones."""
    num_met: int
    """Of these, within the SLO."""
    num_errors: int
    ttft_p95_ms: float | None
    tpot_p95_ms: float | None


@dataclass(frozen=True, slots=True)
class SearchProblem:
    """Everything that the search decides from, except the measurements."""

    settings: Mapping[RestartConfig, tuple[LiveSetting, ...]]
    """The cells, by the configuration that they need. The first ones are tried first where nothing
    else orders them."""
    predicted: Mapping[Cell, float]
    """Good requests per second as the planner expects them; cells may lack."""
    usd_per_hour: Mapping[RestartConfig, float]
    """Price of the machines; empty where no price is given, and then all prices are alike."""
    min_attained_fraction: float
    """Of the requests; a setting that surely meets the SLO for fewer cannot win."""
    max_starts: int
    max_blocks: int
    """Trials of all purposes."""
    num_qualifying: int
    """Blocks that decide whether a finalist meets the SLO."""
    num_held_out: int
    """Blocks that report a finalist."""
    seed: int

    @property
    def cells(self) -> list[Cell]:
        """All cells."""
        return [Cell(restart, live) for restart, lives in self.settings.items() for live in lives]

    def price(self, restart: RestartConfig) -> float:
        """Dollars per hour, or 1 where no price is given."""
        return self.usd_per_hour.get(restart, 1.0)
