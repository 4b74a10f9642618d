"""Turn sampled answers and true log-probabilities into batches for the evidence. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from paceline.workbench.audit.statistics.bets import IGNORED, Batch
from paceline.workbench.audit.statistics.claims import REST, claimed_probs
from paceline.workbench.audit.statistics.evidence import Observed
from paceline.workbench.audit.values import Logprobs, Sample, SamplingCase, Token, is_ambiguous

_MAX_KEPT = 200_000


Row = tuple[dict[Token, float], dict[str, dict[Token, float]], Token]


class Observer:
    """Makes batches of samples. Claims are kept, because many answers share a prefix and a case.

    `keeps_claims` is False where each answer comes with log-probabilities of its own.
    """

    def __init__(self, *, keeps_claims: bool = True) -> None:
        self._keeps_claims = keeps_claims
        self._claims: dict[
            Hashable, tuple[dict[Token, float], dict[str, dict[Token, float]]] | None
        ] = {}
        self._num_answers = 0

    def observe(
        self,
        samples: Sequence[tuple[Sample, Sequence[Logprobs]]],
        *,
        noise_nats: float = 0.0,
        may_lack_drafts: bool = False,
    ) -> Observed:
        """The tokens of these samples whose distribution is certain.

        Each sample comes with the true log-probabilities before each of its last tokens, all of
        them or fewer; they must be the same for equal prompts and tokens before. `may_lack_drafts`:
        all of these tokens do, as those with `logit_bias` do anyway.
        """
        if len(self._claims) > _MAX_KEPT:
            self._claims.clear()
        rows: list[Row] = []
        cases, is_drafted, lack_drafts, answers, places, prefixes = [], [], [], [], [], []
        for sample, positions in samples:
            self._num_answers += 1
            start = len(sample.tokens) - len(positions)
            for position, logprobs in enumerate(positions, start):
                before = tuple(sample.tokens[:position])
                prefix = sample.prompt, before
                key = sample.case, prefix
                if key not in self._claims or not self._keeps_claims:
                    self._claims[key] = _claim(logprobs, sample.case, before, noise_nats)
                known = self._claims[key]
                if known is None:
                    continue
                token = sample.tokens[position]
                rows.append((*known, token))
                cases.append(sample.case.name)
                is_drafted.append(position > 0)
                lack_drafts.append(may_lack_drafts or bool(sample.case.logit_bias))
                answers.append(self._num_answers)
                places.append((sample.prompt, sample.case.name, position))
                if position > 0:
                    prefixes.append((prefix, known[0], token))
        return Observed(
            _batch(rows),
            tuple(cases),
            tuple(is_drafted),
            tuple(answers),
            tuple(places),
            tuple(lack_drafts),
            tuple(prefixes),
        )


def _claim(
    logprobs: Logprobs, case: SamplingCase, before: Sequence[Token], noise_nats: float
) -> tuple[dict[Token, float], dict[str, dict[Token, float]]] | None:
    """The claim and what ignoring parameters would make of it; None if it is not certain."""
    claim = claimed_probs(logprobs, case, before, noise_nats=noise_nats)
    if claim is None or any(map(is_ambiguous, claim)):
        return None
    return claim, _ignoring(logprobs, case, before)


def _ignoring(
    logprobs: Logprobs, case: SamplingCase, before: Sequence[Token]
) -> dict[str, dict[Token, float]]:
    """The distributions of samplers that ignore one of the case's parameters."""
    altered: dict[str, SamplingCase] = {}
    if case.temperature != 1.0:
        altered["temperature"] = replace(case, temperature=1.0)
    if case.filters:
        altered["filters"] = replace(case, top_k=0, top_p=1.0)
    if case.penalizes and len(set(before)) > 0:
        altered["penalties"] = replace(case, presence_penalty=0.0, frequency_penalty=0.0)
    if case.logit_bias:
        altered["logit_bias"] = replace(case, logit_bias=())
    found = {name: claimed_probs(logprobs, other, before) for name, other in altered.items()}
    return {name: probs for name, probs in found.items() if probs is not None}


def _batch(rows: Sequence[Row]) -> Batch:
    width = max((len(claim) for claim, _, _ in rows), default=1)
    probs = np.zeros((len(rows), width))
    index = np.zeros(len(rows), dtype=np.int64)
    num_cells = np.zeros(len(rows), dtype=np.int64)
    for row, (claim, _, token) in enumerate(rows):
        probs[row, : len(claim)] = list(claim.values())
        cells = list(claim)
        index[row] = cells.index(token if token in claim else REST)
        num_cells[row] = len(claim)
    ignoring = {}
    for name in IGNORED:
        if any(name in others for _, others, _ in rows):
            table = probs.copy()
            for row, (claim, others, _) in enumerate(rows):
                if name in others:
                    table[row, : len(claim)] = _onto(claim, others[name])
            ignoring[name] = table
    return Batch(probs, index, num_cells, ignoring)


def _onto(cells: dict[Token, float], probs: dict[Token, float]) -> list[float]:
    """The probabilities of the cells; what falls outside them is in `REST`."""
    named = [probs.get(token, 0.0) for token in cells if token != REST]
    return [*named, max(0.0, 1.0 - sum(named))]
