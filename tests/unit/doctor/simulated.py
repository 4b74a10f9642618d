"""A simulated vLLM server: the pages that an engine with known step times would show.

A step with K drafts for each of n requests takes base + K * draft + n * (1 + K) * token, so what
drafts gain is known.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.servers.metrics_page import parse_page
from paceline.operations.doctor.readings.local_cpu import LocalCpu
from paceline.operations.doctor.readings.monitors import MonitorFile
from paceline.operations.doctor.readings.observation import Observation, Reading
from paceline.operations.doctor.readings.probe_result import ProbeResult
from paceline.runtime.config.tree import DEFAULT_MAX_PAUSE_MS

_STEP_BOUNDS = (
    "0.01", "0.025", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.5", "0.75", "1.0",
    "2.5", "5.0", "+Inf",
)  # fmt: skip


@dataclass
class SimulatedEngine:
    """The healthy engine; tests change fields."""

    base_ms: float = 20.0
    draft_ms: float = 0.5
    token_ms: float = 0.05
    reached: tuple[float, ...] = (0.8, 0.64, 0.5)
    """Fraction of drafts accepted up to each position; empty: no speculation."""
    loads: Sequence[int] = (1, 2, 4, 8, 6, 3, 1, 2, 4, 8, 6, 3, 1, 2, 4, 8)
    """Requests in decode in each second."""
    waiting: Sequence[int] = ()
    kv_usage: float = 0.3
    preemptions_per_s: float = 0.0
    slow_steps: float = 0.0
    """Fraction of steps that take 0.3 s."""
    prompt_tokens_per_s: float = 0.0
    cached_prompts: float = 0.0
    """Fraction of the prompt tokens that the prefix cache has."""
    prompts_per_step: Sequence[float] = ()
    """Prompt tokens in each step, by second; each takes 0.1 ms."""
    requests_per_s: float = 2.0
    failed_per_s: float = 0.0
    first_tokens_s: Sequence[float] = ()
    """Time to first token of each request that was answered, by second."""
    answered_before: int = 100
    """Requests before the observation."""
    extra: str = ""
    """More lines of the page."""
    restarts_at: int | None = None
    """After this second, all counters begin at 0."""
    name: str = "0"

    @property
    def accepted(self) -> float:
        return sum(self.reached)

    def step_ms(self, load: int, draft_length: int | None = None) -> float:
        length = len(self.reached) if draft_length is None else draft_length
        return self.base_ms + length * self.draft_ms + load * (1 + length) * self.token_ms

    def gain(self, load: int) -> float:
        """The truth: tokens/s with drafts over those without."""
        return (1 + self.accepted) * self.step_ms(load, 0) / self.step_ms(load)

    def pages(self) -> list[str]:
        """One page before the first second, and one after each."""
        state = _Totals()
        pages = [self._page(state, self.loads[0], 0)]
        for second, load in enumerate(self.loads):
            if second == self.restarts_at:
                state = _Totals()
            prompts = self.prompts_per_step[second] if self.prompts_per_step else 0.0
            step_s = (self.step_ms(load) + 0.1 * prompts) / 1e3
            steps = load / step_s
            state.add_steps(step_s, steps * (1 - self.slow_steps))
            if self.slow_steps:
                state.add_steps(0.3, steps * self.slow_steps)
            if second < len(self.first_tokens_s):
                state.add_first_token(self.first_tokens_s[second])
            state.tokens += steps * (1 + self.accepted)
            state.drafts += steps if self.reached else 0
            state.prompts += self.prompt_tokens_per_s + prompts / step_s
            state.preemptions += self.preemptions_per_s
            state.finished += self.requests_per_s
            state.failed += self.failed_per_s
            waiting = self.waiting[second] if second < len(self.waiting) else 0
            pages.append(self._page(state, load, waiting))
        return pages

    def _page(self, state: _Totals, load: int, waiting: int) -> str:
        labels = f'engine="{self.name}",model_name="m"'
        lines = [
            f"vllm:num_requests_running{{{labels}}} {load}",
            f"vllm:num_requests_waiting{{{labels}}} {waiting}",
            f"vllm:kv_cache_usage_perc{{{labels}}} {self.kv_usage}",
            f"vllm:num_preemptions_total{{{labels}}} {state.preemptions}",
            f"vllm:generation_tokens_total{{{labels}}} {state.tokens}",
            f"vllm:prompt_tokens_total{{{labels}}} {state.prompts}",
            f"vllm:prompt_tokens_cached_total{{{labels}}} {self.cached_prompts * state.prompts}",
            f'vllm:request_success_total{{{labels},finished_reason="stop"}} {state.finished}',
            f'vllm:request_success_total{{{labels},finished_reason="error"}} {state.failed}',
            *_histogram("vllm:inter_token_latency_seconds", labels, state.steps, state.steps_s),
            *_histogram(
                "vllm:time_to_first_token_seconds",
                labels,
                [state.first[0] + self.answered_before, *state.first[1:]],
                state.first_s,
            ),
        ]
        if self.reached:
            length = len(self.reached)
            lines += [
                f"vllm:spec_decode_num_drafts_total{{{labels}}} {state.drafts}",
                f"vllm:spec_decode_num_draft_tokens_total{{{labels}}} {state.drafts * length}",
                f"vllm:spec_decode_num_accepted_tokens_total{{{labels}}} "
                f"{state.drafts * self.accepted}",
                *(
                    f"vllm:spec_decode_num_accepted_tokens_per_pos_total{{{labels},"
                    f'position="{position}"}} {state.drafts * share}'
                    for position, share in enumerate(self.reached)
                ),
            ]
        return "\n".join(lines) + "\n" + self.extra


class _Totals:
    def __init__(self) -> None:
        self.tokens = self.drafts = self.prompts = self.preemptions = 0.0
        self.finished = self.failed = self.steps_s = self.first_s = 0.0
        self.steps = [0.0] * len(_STEP_BOUNDS)
        self.first = [0.0] * len(_STEP_BOUNDS)

    def add_steps(self, step_s: float, count: float) -> None:
        self.steps[_bucket(step_s)] += count
        self.steps_s += step_s * count

    def add_first_token(self, seconds: float) -> None:
        self.first[_bucket(seconds)] += 1
        self.first_s += seconds


def _bucket(seconds: float) -> int:
    return bisect.bisect_left([float(bound) for bound in _STEP_BOUNDS], seconds)


def _histogram(name: str, labels: str, counts: Sequence[float], total: float) -> list[str]:
    cumulative = list(itertools.accumulate(counts))
    buckets = zip(_STEP_BOUNDS, cumulative, strict=True)
    return [
        *(f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in buckets),
        f"{name}_sum{{{labels}}} {total}",
        f"{name}_count{{{labels}}} {cumulative[-1]}",
    ]


def observe_vllm(
    *engines: SimulatedEngine,
    log_lines: Sequence[str] | None = None,
    probe: ProbeResult | None = None,
    version: str | None = None,
    local_cpu: LocalCpu | None = None,
    monitors: Sequence[MonitorFile] = (),
    max_pause_ms: float = DEFAULT_MAX_PAUSE_MS,
) -> Observation:
    """The observation of a server with these engines, one reading per second."""
    engines = engines or (SimulatedEngine(),)
    for number, engine in enumerate(engines):
        engine.name = str(number)
    readings = [
        Reading(float(second), parse_page("".join(pages)))
        for second, pages in enumerate(zip(*(engine.pages() for engine in engines), strict=True))
    ]
    return Observation(
        "vllm",
        readings,
        log_lines,
        probe,
        version=version,
        local_cpu=local_cpu,
        monitors=monitors,
        max_pause_ms=max_pause_ms,
    )
