"""The requests of a trace: by text from the built-in workloads, or with scripted acceptance.

Request n of a phase is the same on every engine. By text, phase i takes the prompts of each
category's workload in the order of the seed + i. Otherwise the prompt is random token ids of the
scripted length and the answer has exactly the scripted length; with scripted acceptance the rates
are in `vllm_xargs`. With a `cache_salt` of its own, a run finds no prompt of another run in the
prefix cache.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

from paceline.foundation.shifting_trace import RequestDraw, ShiftingTrace, draw_request
from paceline.foundation.workloads import (
    Prompt,
    RequestSpec,
    SamplingSettings,
    WorkloadError,
    build_spec,
    load_workload,
)
from paceline.workbench.bench.trace.config import AcceptanceMode, TraceConfig

RATES_FIELD = "synthetic_acceptance_rates"
"""Of `vllm_xargs` in a request; vLLM's name for the same setting of a server."""
MAX_DRAFT_LENGTH = 32
"""Rates are sent for this many positions; longer than any draft length in use."""
_PHASE_STRIDE = 1_000_000
"""Between the numbers of the first requests of two phases; above the requests of a phase."""
_PROMPT_IDS = range(32, 127)
"""Token ids of random prompts: low enough for any vocabulary."""


class RequestSource(Protocol):
    """Makes the requests of all phases."""

    def next_request(self, phase_number: int) -> RequestSpec:
        """The next request of the phase; never blocks. Mutates the source."""
        ...


def make_source(
    config: TraceConfig, model: str, id_prefix: str, cache_salt: str | None = None
) -> RequestSource:
    """The source for a run; WorkloadError if a category lacks what the run needs."""
    extra_body = {} if cache_salt is None else {"cache_salt": cache_salt}
    try:
        if config.acceptance is AcceptanceMode.TEXT:
            return TextSource(config.scaled, model, config.seed, id_prefix, extra_body)
        sends_rates = config.acceptance is AcceptanceMode.SCRIPTED
        return ScriptedSource(
            config.scaled, model, config.seed, id_prefix, extra_body, sends_rates=sends_rates
        )
    except ValueError as error:
        raise WorkloadError(str(error)) from error


class _Counting:
    """Numbers the requests of each phase."""

    def __init__(self, trace: ShiftingTrace, seed: int) -> None:
        self._phases = trace.phases
        self._seed = seed
        self._indices = [itertools.count() for _ in trace.phases]

    def draw(self, phase_number: int) -> tuple[RequestDraw, int]:
        """The next request of the phase, and its number, which is unique in the run."""
        index = next(self._indices[phase_number])
        draw = draw_request(self._phases[phase_number], phase_number, index, self._seed)
        return draw, phase_number * _PHASE_STRIDE + index


class TextSource:
    """See `RequestSource`: prompts of the built-in workloads."""

    def __init__(
        self,
        trace: ShiftingTrace,
        model: str,
        seed: int,
        id_prefix: str,
        extra_body: Mapping[str, str],
    ) -> None:
        self._counting = _Counting(trace, seed)
        self._sampling = {
            name: replace(
                _sampling(trace, name, model, seed, id_prefix), extra_body=dict(extra_body)
            )
            for name in used_categories(trace)
        }
        self._prompts = {
            (number, name): _prompts(trace, name, seed + number)
            for number, phase in enumerate(trace.phases)
            for name, _ in phase.mix
        }

    def next_request(self, phase_number: int) -> RequestSpec:
        """See `RequestSource`. A category's prompts repeat when they run out."""
        draw, number = self._counting.draw(phase_number)
        prompt = next(self._prompts[phase_number, draw.category])
        return build_spec(
            replace(prompt, task=draw.category), self._sampling[draw.category], number
        )


class ScriptedSource:
    """See `RequestSource`: random prompts whose drafts are accepted by script."""

    def __init__(
        self,
        trace: ShiftingTrace,
        model: str,
        seed: int,
        id_prefix: str,
        extra_body: Mapping[str, str],
        *,
        sends_rates: bool,
    ) -> None:
        self._extra_body = extra_body
        self._sends_rates = sends_rates
        self._counting = _Counting(trace, seed)
        self._model = model
        self._id_prefix = id_prefix
        self._scripts = {name: trace.script(name) for name in used_categories(trace)}

    def next_request(self, phase_number: int) -> RequestSpec:
        """See `RequestSource`."""
        draw, number = self._counting.draw(phase_number)
        script = self._scripts[draw.category]
        num_prompt_tokens, num_output_tokens = draw.token_counts(script)
        body: dict[str, Any] = {
            "model": self._model,
            "prompt": draw.random.choices(_PROMPT_IDS, k=num_prompt_tokens),
            "max_tokens": num_output_tokens,
            "ignore_eos": True,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._extra_body,
        }
        if self._sends_rates:
            body["vllm_xargs"] = {RATES_FIELD: list(script.survival(MAX_DRAFT_LENGTH))}
        return RequestSpec(
            index=number,
            task=draw.category,
            path="/v1/completions",
            body=json.dumps(body).encode(),
            request_id=f"{self._id_prefix}{number}",
        )


def make_probe(spec: RequestSpec) -> RequestSpec:
    """The request with an answer of one token, to find out whether the server accepts it."""
    body = {**json.loads(spec.body), "max_tokens": 1}
    return replace(spec, body=json.dumps(body).encode())


def _prompts(trace: ShiftingTrace, category: str, seed: int) -> Iterator[Prompt]:
    """The prompts of a category in the order of `seed`, endlessly."""
    text = trace.text(category)
    prompts = load_workload(text.workload).prompts(seed)
    if any(prompt.turns for prompt in prompts):
        raise WorkloadError(
            f"category {category!r} of trace {trace.name!r} takes the workload {text.workload!r}, "
            "which has sessions of several turns; choose one with single requests"
        )
    return itertools.cycle(prompts)


def _sampling(
    trace: ShiftingTrace, category: str, model: str, seed: int, id_prefix: str
) -> SamplingSettings:
    text = trace.text(category)
    temperature = text.temperature
    if temperature is None:
        temperature = load_workload(text.workload).temperature
    return SamplingSettings(model, temperature, None, text.max_tokens, seed, {}, id_prefix)


def used_categories(trace: ShiftingTrace) -> list[str]:
    """The categories that some phase mixes, in their order in the trace."""
    used = {name for phase in trace.phases for name, _ in phase.mix}
    return [category.name for category in trace.categories if category.name in used]
