"""What a plan is asked for: the model, the drafter, the load, the limits and the hardware."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paceline.foundation.capacity.calibration import MeasuredSteps
from paceline.foundation.capacity.cost import SECONDS_PER_DAY
from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.model.shape import ModelShape
from paceline.foundation.capacity.model.weight_format import WeightFormat
from paceline.foundation.capacity.speculation import Acceptance
from paceline.foundation.compatibility.hardware_classes import HardwareClass

NO_PRICE = "no price in the catalogue: set --usd-per-gpu-hour"


class PlanError(ValueError):
    """A plan that cannot be made; the message says what was given, what is allowed and where."""


class NothingFits(PlanError):
    """No machine of the catalogue holds the model and meets the limits given."""


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model with the storage of its weights."""

    name: str
    """As given on the command line."""
    source: str
    """Where its shape was read: a path, or the name in the table."""
    shape: ModelShape
    weight_format: WeightFormat
    checkpoint_bytes: int | None = None
    """Of the tensors in the folder's safetensors files; None where there are none."""
    converted_to: str | None = None
    """The scheme that the stored weights have to be converted to first; None for as stored."""
    vllm_quantization: str | None = None
    """Value of --quantization, without which vLLM does not find the stored format; None: none."""

    @property
    def folder_or_name(self) -> str:
        """What a server loads of the stored weights: a folder, never the config.json in it."""
        path = Path(self.name)
        return str(path.parent) if path.suffix == ".json" else self.name

    @property
    def served_name(self) -> str:
        """What a server loads: the model, or the folder that the conversion writes."""
        if self.converted_to is None:
            return self.folder_or_name
        return f"./{Path(self.folder_or_name).resolve().name}-{self.converted_to}"

    @property
    def conversion(self) -> str | None:
        """The command that writes `served_name`; None where nothing is converted."""
        if self.converted_to is None:
            return None
        words = ["paceline", "quantize", self.folder_or_name, "--scheme", self.converted_to]
        return shlex.join([*words, "--out", self.served_name])


DrafterKind = Literal["model", "ngram", "suffix", "none"]


@dataclass(frozen=True, slots=True)
class AcceptanceRange:
    """An acceptance, and the range that it is expected in."""

    low: Acceptance
    expected: Acceptance
    high: Acceptance

    def at(self, per_token: float) -> AcceptanceRange:
        """A known acceptance: the same in all three."""
        known = Acceptance(per_token, self.expected.proposed_fraction)
        return AcceptanceRange(known, known, known)


@dataclass(frozen=True, slots=True)
class Drafter:
    """What proposes drafts, and how often they are right."""

    kind: DrafterKind
    model: PlannedModel | None
    """Of kind "model" only."""
    acceptance: AcceptanceRange | None
    """None: unknown, so no gain is counted."""
    why: str
    """Why this drafter, in one sentence."""
    acceptance_source: str
    """Where the acceptance is from: given, or measured by us; or why it is unknown."""

    @property
    def label(self) -> str:
        """The draft model, or the kind of drafter."""
        return self.kind if self.model is None else self.model.served_name


def no_drafter(why: str = "no speculation: as given") -> Drafter:
    """The drafter of an engine without speculation."""
    return Drafter("none", None, None, why, "no drafts")


@dataclass(frozen=True, slots=True)
class Load:
    """The traffic."""

    prompt_tokens: int = 1024
    output_tokens: int = 256
    requests_per_day: float | None = None
    peak_factor: float = 3.0
    """Rate of the busiest minutes over the mean rate of the day."""
    concurrency: int | None = None
    """Requests at once on each replica; None for as many as the limits allow."""
    regions: int = 1

    @property
    def context_tokens(self) -> int:
        """Of a request at its end."""
        return self.prompt_tokens + self.output_tokens

    @property
    def mean_context_tokens(self) -> float:
        """Of a decoding request, on average over its answer."""
        return self.prompt_tokens + self.output_tokens / 2

    @property
    def peak_requests_per_s(self) -> float | None:
        """Arrivals in the busiest minutes."""
        if self.requests_per_day is None:
            return None
        return self.requests_per_day / SECONDS_PER_DAY * self.peak_factor


@dataclass(frozen=True, slots=True)
class Slo:
    """Latency that the plan must keep; None for no limit."""

    ttft_ms: float | None = None
    """Waits included, for the share `quantile` of the requests."""
    tpot_ms: float | None = None
    quantile: float = 0.95

    @property
    def percentile(self) -> str:
        """The quantile in percent, such as "95"."""
        return f"{100 * self.quantile:g}"


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Settings of vLLM that decide how much fits."""

    gpu_memory_utilization: float
    max_model_len: int
    max_num_seqs: int
    max_batched_tokens: int
    kv_dtype: str
    max_draft_length: int
    draft_lengths: tuple[int, ...]
    """That the governor may choose, ascending from 0."""
    is_max_model_len_given: bool = False
    """Otherwise it may be shortened to what the KV cache holds."""
    kv_cache_bytes: int | None = None
    """Fixed size of the cache on each GPU; None for all memory that is left."""
    reserve_bytes: int | None = None
    """For activations, graphs and runtime; None for the estimate."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One size of machine that can be rented at a known price."""

    num_gpus: int
    """Of one machine; tensor parallelism stays within them."""
    usd_per_hour: float
    """Of the whole machine."""
    source: str
    """Who sells it, and the date of the price."""
    is_node: bool = True
    """Whether it can be a node of a cluster; GPUs that are rented as containers cannot."""


@dataclass(frozen=True, slots=True)
class HardwareEntry:
    """One entry of the catalogue, with its sources."""

    hardware: Hardware
    offers: tuple[Offer, ...]
    """The smallest machine first; empty where no price is known."""
    source: str
    calibration: MeasuredSteps | None = None
    """What the hardware was fitted to; None for the catalogue's figures."""
    hardware_class: HardwareClass | None = None
    """The column of the table of number formats; None for a user's entry without one."""

    @property
    def price_source(self) -> str:
        """Of the smallest machine that is sold."""
        return self.offers[0].source if self.offers else NO_PRICE


@dataclass(frozen=True, slots=True)
class Placement:
    """Hardware, and how the model is spread over it."""

    hardware: Hardware
    num_gpus: int
    tensor_parallel: int

    @property
    def num_replicas(self) -> int:
        """Copies of the model on these GPUs."""
        return self.num_gpus // self.tensor_parallel
