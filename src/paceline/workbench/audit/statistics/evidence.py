"""E-values of an audit: how much its sampled tokens speak against lossless sampling.

Bets are multiplied per group of tokens and averaged over alternatives and groups. A mean of
e-values is an e-value, so all tests together have one error rate: if the endpoint is lossless,
`log_e` ever reaches ln(1/alpha) with probability at most alpha, whenever it is looked at.

The first token of an answer is never drafted. Its group is the control: it shows whether the
log-probabilities describe the sampler at all, and is no part of the verdict.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from paceline.workbench.audit.statistics.bets import (
    DEPENDENCE_NAMES,
    NAMES,
    Batch,
    Floats,
    dependence_bets,
    log_bets,
    uniforms,
)
from paceline.workbench.audit.statistics.learned import LEARNED_NAMES, LearnedBets
from paceline.workbench.audit.values import Token

LEARNED, LEARNED_ANYWHERE = "tokens after the same prefix", "tokens after any prefix"
"""Groups of the bets that learn."""
ALONG, BETWEEN = "draws of one answer", "draws of different answers"
"""Groups of the bets that draws depend on each other."""
Bools = npt.NDArray[np.bool_]
_POOLED_STAKE = 0.5


@dataclass(slots=True)
class GroupEvidence:
    """The bets on one group of tokens."""

    names: tuple[str, ...]
    sums: Floats
    num_tokens: int = 0
    expected_top: float = 0.0
    """Tokens that should be the likeliest one."""
    observed_top: int = 0

    @property
    def log_e(self) -> float:
        """ln of the mean of the alternatives' e-values."""
        return log_mean_exp(self.sums)

    @property
    def best_alternative(self) -> str:
        """The alternative that fits best."""
        return self.names[int(self.sums.argmax())]


@dataclass(frozen=True, slots=True)
class Observed:
    """A batch of tokens with the groups that they belong to."""

    batch: Batch
    cases: tuple[str, ...]
    """Name of each token's sampling case."""
    is_drafted: tuple[bool, ...]
    """False for the first token of an answer."""
    answers: tuple[Hashable, ...]
    """The answer of each token; its tokens are in order."""
    places: tuple[Hashable, ...]
    """Equal for tokens at the same position of answers to the same prompt and case."""
    may_lack_drafts: tuple[bool, ...] = ()
    """Tokens of cases that servers answer without drafts; empty: none. They are bet on by case, and
    are no part of the pooled evidence, which the power is stated for."""
    prefixes: tuple[tuple[Hashable, Mapping[Token, float], Token], ...] = ()
    """Of drafted tokens: the prompt and all tokens before, the claim, and the token."""


@dataclass(slots=True)
class Evidence:
    """The e-values of everything added so far. Only `add` mutates."""

    noise_nats: float = 0.0
    """By how much claimed and true log-probabilities differ at random; each bet pays its square, so
    that rounding in coarse number formats is not taken for bias."""
    seed: int = 0
    pooled: GroupEvidence = field(default_factory=lambda: _new_group(NAMES))
    control: GroupEvidence = field(default_factory=lambda: _new_group(NAMES))
    groups: dict[str, GroupEvidence] = field(default_factory=dict)
    """Drafted tokens by sampling case, and the dependence of draws on each other."""
    top_probs: list[float] = field(default_factory=list)
    """Of the pooled tokens: the design from which `power` computes what would have been found."""
    _draws: np.random.Generator = field(init=False)
    _last: dict[tuple[str, Hashable], float] = field(init=False, default_factory=dict)
    """The last uniform number by group and stream."""
    _learned: LearnedBets = field(init=False, default_factory=LearnedBets)

    def __post_init__(self) -> None:
        self._draws = np.random.default_rng(self.seed)

    def add(self, observed: Observed) -> None:
        """Add tokens, in the order in which they were sampled within each answer."""
        batch = observed.batch
        if not len(batch.index):
            return
        bets = log_bets(batch) - self.noise_nats**2
        is_top, tops = batch.index == 0, batch.probs[:, 0]
        drafted = np.array(observed.is_drafted)
        self._add_to(self.control, bets, ~drafted, is_top, tops)
        pooled = drafted & ~np.array(observed.may_lack_drafts or (False,) * len(drafted))
        self._add_to(self.pooled, bets, pooled, is_top, tops)
        for case in dict.fromkeys(observed.cases):
            here = drafted & np.array([name == case for name in observed.cases])
            group = self.groups.setdefault(case, _new_group(NAMES))
            self._add_to(group, bets, here, is_top, tops)
        self.top_probs += tops[pooled].tolist()
        self._add_learned(observed)
        self._add_dependence(ALONG, batch, observed.answers)
        self._add_dependence(BETWEEN, batch, observed.places)

    def _add_to(
        self, group: GroupEvidence, bets: Floats, here: Bools, is_top: Bools, tops: Floats
    ) -> None:
        group.sums += bets[:, here].sum(axis=1)
        group.num_tokens += int(here.sum())
        group.expected_top += float(tops[here].sum())
        group.observed_top += int(is_top[here].sum())

    def _add_learned(self, observed: Observed) -> None:
        """Bet on what was preferred after the same prefix before."""
        if observed.prefixes:
            here = self.groups.setdefault(LEARNED, _new_group(LEARNED_NAMES))
            anywhere = self.groups.setdefault(LEARNED_ANYWHERE, _new_group(LEARNED_NAMES))
            toll = self.noise_nats**2
            for prefix, claim, token in observed.prefixes:
                here.sums += np.array(self._learned.bet(prefix, claim, token)) - toll
                anywhere.sums += np.array(self._learned.bet(None, claim, token)) - toll
            here.num_tokens += len(observed.prefixes)
            anywhere.num_tokens += len(observed.prefixes)

    def _add_dependence(self, name: str, batch: Batch, streams: tuple[Hashable, ...]) -> None:
        """Bet on each token's draw given the last one of its stream."""
        found = uniforms(batch, self._draws.random(len(batch.index)))
        pairs = []
        for stream, uniform in zip(streams, found.tolist(), strict=True):
            if (name, stream) in self._last:
                pairs.append((self._last[name, stream], uniform))
            self._last[name, stream] = uniform
        if pairs:
            left, right = np.array(pairs).T
            group = self.groups.setdefault(name, _new_group(DEPENDENCE_NAMES))
            bets = dependence_bets(left, right) - self.noise_nats**2
            group.sums += bets.sum(axis=1)
            group.num_tokens += len(pairs)

    @property
    def log_e(self) -> float:
        """ln of the e-value of all tests together; half of the stake is on all drafted tokens."""
        others = [group.log_e for group in self.groups.values()]
        if not others:
            return 0.0
        stakes = np.log([_POOLED_STAKE, 1 - _POOLED_STAKE])
        parts = np.array([self.pooled.log_e, log_mean_exp(np.array(others))]) + stakes
        return float(np.logaddexp(*parts))


def _new_group(names: tuple[str, ...]) -> GroupEvidence:
    return GroupEvidence(names, np.zeros(len(names)))


def log_mean_exp(logs: Floats) -> float:
    """ln of the mean of the exponentials."""
    top = float(logs.max())
    return top + float(np.log(np.exp(logs - top).mean()))
