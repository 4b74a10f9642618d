"""Waiting for the prompts of other requests, which an engine computes between its decode steps.

With chunked prefill, a step of d seconds that decodes also computes the prompts that waited when it
began, p seconds each. Prompts that arrive meanwhile wait for the next step. With Poisson arrivals
at rate λ, a step after a step of length C takes

    C' = d + p * N,    N ~ Poisson(λ * C)

This is the cycle of a polling system with one gated queue. With r = λ * p below 1 the cumulants of
C in the steady state are

    k1 = d / (1 - r)    k2 = p² * λ * k1 / (1 - r²)    k3 = p³ * (λ * k1 + 3 * λ² * k2) / (1 - r³)

A request arrives in a step of length-biased duration C*, waits for its rest U * C*, U uniform, and
gets its first token at the end of the next step, which takes d + p * (1 + M), M ~ Poisson(λ * C*).
Its wait is everything but its own p.

A step takes at most 1 / s prompts, s prompt tokens over the tokens that decodes leave. With s at
least 1, prompts take turns: the M/G/1 queue with service time S = p + s * d, and the rest of a step
in progress as the vacation. Below 1, k prompts that wait need max(0, k * s - 1) steps more than
one; with k geometric with ratio r these lengthen a prompt on average by

    r^(j - 1) * ((j * s - 1) * (1 - r) + s * r) * d,    j = ceil(1 / s)

Approximations: steps of steady length d; the first request of an idle engine waits for nothing; the
wait of requests that find prompts in progress has a gamma distribution with the moments above. All
prompts take p. A discrete-event simulation confirms the 95th percentile of the time to first token
within 10 % (tests/unit/capacity/test_prompt_queue.py). References: Takagi, "Analysis of Polling
Systems" (1986), chapter 2, and "Queueing Analysis", volume 1 (1991), chapter 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class PromptWait:
    """The distribution of a wait, by three kinds of requests in the order of their waits."""

    idle_fraction: float
    """Of the requests, which find no other request and do not wait."""
    quiet_fraction: float
    """Find only decodes; they wait `quiet_low_s` to `quiet_high_s`, uniformly."""
    quiet_low_s: float
    quiet_high_s: float
    ahead_mean_s: float
    """Of all others, which find prompts that are computed first."""
    ahead_variance_s2: float

    @property
    def ahead_fraction(self) -> float:
        """Of the requests, which wait for prompts."""
        return max(0.0, 1.0 - self.idle_fraction - self.quiet_fraction)

    @property
    def mean_s(self) -> float:
        """Of all requests."""
        quiet_mean_s = (self.quiet_low_s + self.quiet_high_s) / 2
        return self.quiet_fraction * quiet_mean_s + self.ahead_fraction * self.ahead_mean_s

    def quantile_s(self, quantile: float) -> float:
        """Seconds that a share `quantile` of the requests does not wait longer than.

        >>> PromptWait(1.0, 0.0, 0.0, 0.0, 0.0, 0.0).quantile_s(0.95)
        0.0
        """
        exceeded = 1.0 - quantile
        if exceeded < self.ahead_fraction:
            among_ahead = 1.0 - exceeded / self.ahead_fraction
            gamma_s = gamma_quantile(self.ahead_mean_s, self.ahead_variance_s2, among_ahead)
            return max(self.quiet_high_s, gamma_s)
        if quantile <= self.idle_fraction:
            return 0.0
        among_quiet = (quantile - self.idle_fraction) / self.quiet_fraction
        return self.quiet_low_s + among_quiet * (self.quiet_high_s - self.quiet_low_s)


NO_WAIT = PromptWait(1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Of a request that is alone."""


@dataclass(frozen=True, slots=True)
class PromptQueue:
    """The prompts of one replica that always decodes.

    Raises `ValueError` where prompts arrive as fast as they are computed, or faster.
    """

    arrivals_per_s: float
    prompt_s: float
    """To compute one prompt."""
    step_s: float
    """To decode one step."""
    steps_per_prompt: float
    """Tokens of a prompt over those that a step has left beside its decodes."""

    def __post_init__(self) -> None:
        if self.utilization >= 1.0:
            raise ValueError(
                f"at {self.arrivals_per_s:.3g} requests/s, prompts of {self.prompt_s:.3g} s and "
                f"the decode steps beside them take {self.utilization:.0%} of the time; it must "
                "be below 100 %: send a replica fewer requests, or let a step compute more tokens "
                "(--max-num-batched-tokens)"
            )

    @property
    def utilization(self) -> float:
        """Of the time that can be spent on prompts; the wait has no bound at 1."""
        return self.arrivals_per_s * self._service_s

    def wait(self) -> PromptWait:
        """The wait of a request beside its own prompt."""
        return self._in_turn() if self.steps_per_prompt >= 1 else self._gated()

    def longest_wait_s(self, num_others: int) -> float:
        """Seconds that a request waits at most, where this many others bring one prompt each."""
        steps = 1 + math.ceil(self.steps_per_prompt)
        return num_others * self._service_s + steps * self.step_s

    @property
    def _service_s(self) -> float:
        """A prompt with the decode steps that it lengthens the queue by."""
        s = self.steps_per_prompt
        if s >= 1:
            return self.prompt_s + s * self.step_s
        prompts = math.ceil(1 / s)
        busy = min(1.0, self.arrivals_per_s * self.prompt_s)
        steps = busy ** (prompts - 1) * ((prompts * s - 1) * (1 - busy) + s * busy)
        return self.prompt_s + steps * self.step_s

    def _gated(self) -> PromptWait:
        rate, p, d, r = self.arrivals_per_s, self._service_s, self.step_s, self.utilization
        k1 = d / (1 - r)
        k2 = p**2 * rate * k1 / (1 - r**2)
        k3 = p**3 * (rate * k1 + 3 * rate**2 * k2) / (1 - r**3)
        # The first two moments of the step that a request arrives in.
        found_s = (k2 + k1**2) / k1
        found_s2 = (k3 + 3 * k2 * k1 + k1**3) / k1
        mean_s = found_s * (0.5 + r) + d
        variance = found_s2 / 12 + rate * p**2 * found_s + (0.5 + r) ** 2 * (found_s2 - found_s**2)
        # Steps without a prompt, with N negative binomial of mean λ k1 and dispersion 1 / (1 - r²).
        no_prompt = math.exp(-rate * k1 * _log_ratio(r**2))
        # Of the requests that arrive in such a step, those that are the only ones.
        quiet = no_prompt * d / k1 * math.exp(-rate * d)
        quiet_mean_s = 1.5 * d
        quiet_s2 = quiet_mean_s**2 + d**2 / 12
        ahead = 1.0 - quiet
        ahead_mean_s = (mean_s - quiet * quiet_mean_s) / ahead if ahead > 0 else 0.0
        ahead_s2 = (mean_s**2 + variance - quiet * quiet_s2) / ahead if ahead > 0 else 0.0
        return PromptWait(0.0, quiet, d, 2 * d, ahead_mean_s, ahead_s2 - ahead_mean_s**2)

    def _in_turn(self) -> PromptWait:
        rate, service, r, d = self.arrivals_per_s, self._service_s, self.utilization, self.step_s
        steps = self.steps_per_prompt
        own_steps_s = math.ceil(steps) * d
        if r == 0.0:
            return PromptWait(0.0, 1.0, own_steps_s, own_steps_s + d, 0.0, 0.0)
        # The M/G/1 queue: moments of the wait of all, then of those who wait.
        mean_s = rate * service**2 / (2 * (1 - r))
        moment_s2 = 2 * mean_s**2 + rate * service**3 / (3 * (1 - r))
        waiting_s = mean_s / r
        # The step in which a prompt ends is filled by one that came later, if there is one.
        full_step_s = self.prompt_s / steps
        filled_s = -math.expm1(-rate * service) * (math.ceil(steps) - steps) * full_step_s
        half_filled_s = -math.expm1(-rate * (waiting_s + service)) * full_step_s / 2
        return PromptWait(
            0.0,
            1.0 - r,
            own_steps_s + filled_s,
            own_steps_s + filled_s + d,
            waiting_s + d / 2 + own_steps_s + half_filled_s,
            moment_s2 / r - waiting_s**2 + d**2 / 12,
        )


def mixed_wait(parts: Iterable[tuple[float, PromptWait]]) -> PromptWait:
    """The wait of requests of which each part, a share of all, waits in its own way.

    The shares add up to 1.
    """
    idle = quiet = low = high = ahead = first = second = 0.0
    for share, wait in parts:
        idle += share * wait.idle_fraction
        quiet += share * wait.quiet_fraction
        low += share * wait.quiet_fraction * wait.quiet_low_s
        high += share * wait.quiet_fraction * wait.quiet_high_s
        waiting = share * wait.ahead_fraction
        ahead += waiting
        first += waiting * wait.ahead_mean_s
        second += waiting * (wait.ahead_variance_s2 + wait.ahead_mean_s**2)
    mean_s = first / ahead if ahead else 0.0
    variance = second / ahead - mean_s**2 if ahead else 0.0
    return PromptWait(
        idle,
        quiet,
        low / quiet if quiet else 0.0,
        high / quiet if quiet else 0.0,
        mean_s,
        max(0.0, variance),
    )


def gamma_quantile(mean: float, variance: float, quantile: float) -> float:
    """Quantile of the gamma distribution with these moments (Wilson and Hilferty, 1931).

    >>> round(gamma_quantile(1.0, 1.0, 0.95), 2)  # exponential: ln 20 is 3.00
    2.97
    """
    if variance <= 0.0 or not 0.0 < quantile < 1.0:
        return mean
    ninth = variance / (9 * mean**2)
    root = 1 - ninth + NormalDist().inv_cdf(quantile) * math.sqrt(ninth)
    return mean * max(0.0, root) ** 3


def _log_ratio(x: float) -> float:
    """-ln(1 - x) * (1 - x) / x, which is 1 at 0."""
    return 1.0 if x < 1e-9 else -math.log1p(-x) * (1 - x) / x
