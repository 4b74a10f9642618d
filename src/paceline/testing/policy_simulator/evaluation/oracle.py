"""The best throughput of a fixed draft length, computed from the truth in closed form.

Shares no code with the governor, so that one error cannot affect both. For n requests always in
the engine and draft length k, per kind of request (a class and a quality z, the latter by
Gauss-Hermite quadrature), with survival S_j = hazard_1 … hazard_j:

    matched   q = start / (start + 1 - stay'),   stay' = pi + (1 - pi) E[memory^(1 + accepted)]
    tokens    T = 1 + q (S_1 + … + S_k)                       per decode step
    steps     N = (L - 1 + overshoot) / T,  overshoot = (E[X^2] / T - 1) / 2,  X tokens of a step
    stay      R = ceil(prompt / chunk) + N                    steps from admission to the end

q is the stationary chance of a match at the start of a step: a step from a match goes further, so
it is not the fraction pi of tokens. N is Wald's identity with the mean overshoot of a lattice
renewal process; L, the output's length, enters by its mean. Requests of a hard kind stay longer, so
kinds weigh by their stay. Then

    tokens per s = n E[L] / E[R] / step time

where the step time is the mean of the cost function over how many of the n requests are prefilling
and how many drafts are matched (binomial, each at a few equally likely strata).

Assumes a steady state, prompts that fit the step's budget, and requests out of step with each
other; under asynchronous scheduling it leaves out the step a request may run too long. Between the
phases of a trace none of this holds, by a few steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from paceline.testing.policy_simulator.machines.cost import StepShape
from paceline.testing.policy_simulator.machines.machine import Machine
from paceline.testing.policy_simulator.traffic.phases import DraftTruth, Phase

_NUM_QUALITIES = 15
_NUM_STRATA = 9


@dataclass(frozen=True, slots=True)
class Rate:
    """One draft length in a steady phase."""

    draft_length: int
    tokens_per_s: float
    step_s: float
    """Mean duration of a step."""
    tokens_per_step: float
    """Output tokens of all requests together."""


def steady_rates(phase: Phase, num_requests: int, machine: Machine) -> list[Rate]:
    """Every draft length from 0 to the machine's ceiling, with `num_requests` in the engine."""
    if num_requests < 1:
        raise ValueError(f"num_requests is {num_requests}; it must be at least 1")
    return [_rate(phase, num_requests, machine, length) for length in machine.lengths]


def best_rate(phase: Phase, num_requests: int, machine: Machine) -> Rate:
    """The draft length that yields the most tokens per second."""
    return max(steady_rates(phase, num_requests, machine), key=lambda rate: rate.tokens_per_s)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Requests of one kind, at one draft length."""

    weight: float
    tokens_per_step: float
    matched: float
    stay_steps: float
    decode_steps: float
    output_tokens: float
    prompt_tokens: float
    context_tokens: float


def _rate(phase: Phase, num_requests: int, machine: Machine, length: int) -> Rate:
    kinds = _kinds(phase, machine, length)
    stay = sum(kind.weight * kind.stay_steps for kind in kinds)
    decoding = sum(kind.weight * kind.decode_steps for kind in kinds)
    drafts = sum(kind.weight * kind.decode_steps * kind.matched for kind in kinds)
    output = sum(kind.weight * kind.output_tokens for kind in kinds)
    prompt = sum(kind.weight * kind.prompt_tokens for kind in kinds)
    context = sum(kind.weight * kind.decode_steps * kind.context_tokens for kind in kinds)
    prefill_steps = stay - decoding
    step_s = 0.0
    for num_prefilling, chance in _binomial_strata(num_requests, prefill_steps / stay):
        num_decoding = num_requests - num_prefilling
        matched = drafts / decoding if decoding else 0.0
        for num_matched, match_chance in _binomial_strata(num_decoding, matched):
            # Slots without a match are verified too, on GPUs.
            num_drafting = num_decoding if machine.drafter == "ngram_gpu" else num_matched
            is_uniform = num_prefilling == 0 and num_drafting in (0, num_decoding)
            verified = num_drafting * length
            shape = StepShape(
                num_requests=num_requests,
                verified_draft_tokens=verified,
                prefill_tokens=num_prefilling * (prompt / prefill_steps - 1.0),
                context_tokens=num_requests * context / stay,
                draft_passes=machine.draft_passes(length),
                tokens_per_request=1 + round(verified / num_requests) if is_uniform else None,
            )
            step_s += chance * match_chance * machine.cost.step_s(shape)
    tokens_per_step = num_requests * output / stay
    return Rate(length, tokens_per_step / step_s, step_s, tokens_per_step)


def _kinds(phase: Phase, machine: Machine, length: int) -> list[_Kind]:
    total = sum(kind.weight for kind in phase.classes)
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(_NUM_QUALITIES)
    kinds = []
    for traffic in phase.classes:
        spread = traffic.truth.spread
        qualities = list(zip(nodes, node_weights / node_weights.sum(), strict=True))
        prompt, output = traffic.prompt_tokens, traffic.output_tokens
        for quality, share in qualities if spread else [(0.0, 1.0)]:
            survival = _survival(traffic.truth, spread * quality, length)
            tokens, square, matched = _step_tokens(traffic.truth, survival)
            overshoot = (square / tokens - 1.0) / 2.0
            decode_steps = (output.mean - 1.0 + overshoot) / tokens if output.high > 1 else 0.0
            prefill_steps = prompt.mean_pieces(machine.max_prompt_tokens)
            kinds.append(
                _Kind(
                    weight=traffic.weight / total * float(share),
                    tokens_per_step=tokens,
                    matched=matched,
                    stay_steps=prefill_steps + decode_steps,
                    decode_steps=decode_steps,
                    output_tokens=output.mean,
                    prompt_tokens=prompt.mean,
                    context_tokens=prompt.mean + output.mean_square / (2.0 * output.mean),
                )
            )
    return kinds


def _survival(truth: DraftTruth, shift: float, length: int) -> list[float]:
    """S_0 … S_length, where every hazard's logit is shifted."""
    survival = [1.0]
    for position in range(length):
        hazard = truth.hazards[min(position, len(truth.hazards) - 1)]
        if 0.0 < hazard < 1.0:
            odds = hazard / (1.0 - hazard) * math.exp(shift)
            hazard = odds / (1.0 + odds)
        survival.append(survival[-1] * hazard)
    return survival


def _step_tokens(truth: DraftTruth, survival: list[float]) -> tuple[float, float, float]:
    """Mean and mean square of a decode step's tokens, and the chance of a match at its start."""
    fraction, memory = truth.match_fraction, truth.match_memory
    ended = [now - after for now, after in zip(survival, [*survival[1:], 0.0], strict=True)]
    persistence = sum(p * memory ** (count + 1) for count, p in enumerate(ended))
    stay = fraction + (1.0 - fraction) * persistence
    leave = 1.0 - stay
    start = truth.match_start
    matched = start / (start + leave) if start + leave > 0.0 else 1.0
    mean = sum(p * (count + 1) for count, p in enumerate(ended))
    square = sum(p * (count + 1) ** 2 for count, p in enumerate(ended))
    return 1.0 + matched * (mean - 1.0), 1.0 + matched * (square - 1.0), matched


def _binomial_strata(trials: float, chance: float) -> list[tuple[float, float]]:
    """(count, weight) pairs that approximate Binomial(trials, chance), with its exact mean."""
    if trials == 0 or chance <= 0.0:
        return [(0.0, 1.0)]
    if chance >= 1.0 - 1e-12:
        return [(float(trials), 1.0)]
    counts = np.arange(trials + 1)
    log_choose = [
        math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
        for count in counts
    ]
    log_pmf = np.asarray(log_choose) + counts * math.log(chance)
    pmf = np.exp(log_pmf + (trials - counts) * math.log1p(-chance))
    pmf /= pmf.sum()
    # Counts fall into strata by the middle of their share of the distribution.
    middle = np.cumsum(pmf) - pmf / 2.0
    stratum = np.minimum((middle * _NUM_STRATA).astype(int), _NUM_STRATA - 1)
    stratum[0] = -1  # zero is a stratum of its own
    strata = []
    for index in np.unique(stratum):
        inside = stratum == index
        weight = float(pmf[inside].sum())
        strata.append((float((pmf * counts)[inside].sum()) / weight, weight))
    return strata
