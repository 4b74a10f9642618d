"""Record, in the engine's process, what the sampler decides beside what it should decide.

`install` wraps two methods of vLLM's model runner; it changes nothing that they compute. The draft
probabilities are kept when the drafter returns them, by request: the sampler gets its own copy a
step later, and a mistake in between shows as a wrong verdict.

Requests may set temperature, top_k and top_p. Requests with any other change of the distribution
(penalties, bad words, grammars) are left out, and tested by value elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from losslessness.verdicts import claims

_ROUNDING = 1e-3
"""Where target and draft agree within this share, float32 decides whether the target exceeds the
draft."""


class _Recorder:
    """What one engine has decided since the last `take`."""

    def __init__(self) -> None:
        self._draws = np.random.default_rng(0)
        self._drafts: dict[str, tuple[list[int], Any]] = {}
        self._requests: dict[str, dict[str, Any]] = {}
        self.clear()

    def clear(self) -> None:
        self.verdicts: list[tuple[int, float, bool]] = []
        self.uniforms: dict[str, list[float]] = {
            name: [] for name in ("draft", "recovered", "bonus", "plain")
        }
        self.counts = {
            "outside": 0,
            "uncertain": 0,
            "greedy_tokens": 0,
            "greedy_deviations": 0,
            "other_drafts": 0,
        }
        self.largest_greedy_gap = 0.0
        self._requests = {}

    def note_drafts(self, runner: Any, drafts: Any) -> None:
        """Keep what the drafter returned, and test its tokens against its own probabilities."""
        rows = drafts if isinstance(drafts, list) else drafts.tolist()
        by_request: dict[str, int] = {}
        if runner._draft_probs is not None:
            by_request = {req_id: row for row, req_id in enumerate(runner._draft_prob_req_ids)}
        self._drafts = {
            req_id: drafted for req_id, drafted in self._drafts.items() if req_id in runner.requests
        }
        for row, token_ids in enumerate(rows):
            req_id = runner.input_batch.req_ids[row]
            params = runner.requests[req_id].sampling_params
            probs = None
            if req_id in by_request:
                probs = runner._draft_probs[by_request[req_id]].double().numpy()
            self._drafts[req_id] = (list(token_ids), probs)
            if probs is not None and _is_plain(params) and params.temperature > 0.0:
                for position, token_id in enumerate(token_ids):
                    self._add_uniform("draft", probs[position] / probs[position].sum(), token_id)

    def note_step(
        self, runner: Any, logits: Any, verified: list[list[int]], sampled: list[list[int]]
    ) -> None:
        """Judge one step: each request has a row of logits per draft token and one more."""
        start = 0
        for row, draft in enumerate(verified):
            rows = logits[start : start + len(draft) + 1]
            start += len(draft) + 1
            if runner.discard_request_mask.np[row]:
                continue
            req_id = runner.input_batch.req_ids[row]
            state = runner.requests[req_id]
            tokens = [token_id for token_id in sampled[row] if token_id >= 0]
            if not _is_plain(state.sampling_params):
                continue
            self._note_logprobs(req_id, state, rows, tokens)
            if state.sampling_params.temperature == 0.0:
                self._judge_greedy(rows, tokens)
            else:
                self._judge_sampled(req_id, state.sampling_params, rows, draft, tokens)

    def _judge_greedy(self, rows: Any, tokens: list[int]) -> None:
        self.counts["greedy_tokens"] += len(tokens)
        for logits, token_id in zip(rows, tokens, strict=False):
            gap = float(logits.max() - logits[token_id])
            if gap > 0.0:
                self.counts["greedy_deviations"] += 1
                self.largest_greedy_gap = max(self.largest_greedy_gap, gap)

    def _judge_sampled(
        self, req_id: str, params: Any, rows: Any, verified: list[int], tokens: list[int]
    ) -> None:
        num_drafts = len(verified)
        drafted, draft_probs = self._drafts.get(req_id, ([], None))
        num_accepted = len(tokens) - 1
        if verified != drafted[:num_drafts] or tokens[:-1] != verified[:num_accepted]:
            self.counts["other_drafts"] += 1
            return
        for position, token_id in enumerate(tokens):
            claim = claims.processed(
                rows[position],
                temperature=params.temperature,
                top_k=params.top_k,
                top_p=params.top_p,
            )
            is_draft = position < num_drafts
            if not claim.is_certain:
                self.counts["uncertain"] += 1
            elif not is_draft:
                self._add_uniform("bonus" if num_drafts else "plain", claim.probs, token_id)
            else:
                own = None if draft_probs is None else draft_probs[position]
                ratio = claims.acceptance_ratio(claim.probs, own, drafted[position])
                is_accepted = position < num_accepted
                self.verdicts.append((position, ratio, is_accepted))
                if not is_accepted:
                    left = claims.residual(claim.probs, own, drafted[position])
                    if (
                        own is not None
                        and abs(claim.probs[token_id] / own[token_id] - 1) < _ROUNDING
                    ):
                        self.counts["uncertain"] += 1
                    else:
                        self._add_uniform("recovered", left, token_id)

    def _add_uniform(self, name: str, probs: Any, token_id: int) -> None:
        draw = float(self._draws.random())
        uniform = claims.uniform_of(probs, token_id, draw=draw)
        if uniform is None:
            self.counts["outside"] += 1
        else:
            self.uniforms[name].append(uniform)

    def _note_logprobs(self, req_id: str, state: Any, rows: Any, tokens: list[int]) -> None:
        """The raw log-probability of each sampled token, to be compared with teacher forcing."""
        known = self._requests.setdefault(
            req_id,
            {
                "prompt_token_ids": [*state.prompt_token_ids, *state.output_token_ids],
                "token_ids": [],
                "logprobs": [],
            },
        )
        known["token_ids"] += tokens
        for logits, token_id in zip(rows, tokens, strict=False):
            best = float(logits.max())
            total = float(np.exp(logits - best).sum())
            known["logprobs"].append(float(logits[token_id]) - best - float(np.log(total)))

    def record(self) -> dict[str, Any]:
        return {
            "verdicts": self.verdicts,
            "uniforms": self.uniforms,
            "counts": self.counts,
            "largest_greedy_gap": self.largest_greedy_gap,
            "requests": list(self._requests.values()),
        }


_recorder = _Recorder()


def install() -> None:
    """Wrap the model runner of this process."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    runner: Any = GPUModelRunner
    runner._sample = _judging(runner._sample)
    runner.take_draft_token_ids = _keeping(runner.take_draft_token_ids)


def take() -> dict[str, Any]:
    """The records since the last call, as JSON values."""
    record = _recorder.record()
    _recorder.clear()
    return record


def _judging(stock: Callable[..., Any]) -> Callable[..., Any]:
    def sample(self: Any, logits: Any, metadata: Any) -> Any:
        verified: list[list[int]] = [[] for _ in range(self.input_batch.num_reqs)]
        if metadata is not None:
            token_ids = iter(metadata.draft_token_ids.tolist())
            verified = [[next(token_ids) for _ in range(num)] for num in metadata.num_draft_tokens]
        raw = logits.double().numpy()  # a copy: the sampler changes the logits in place
        output = stock(self, logits, metadata)
        _recorder.note_step(self, raw, verified, output.sampled_token_ids.tolist())
        return output

    return sample


def _keeping(stock: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Any) -> Any:
        taken = stock(self)
        if self._draft_token_ids is not None:
            _recorder.note_drafts(self, self._draft_token_ids)
        return taken

    return take


def _is_plain(params: Any) -> bool:
    """Whether temperature, top_k and top_p are all that changes the distribution."""
    return not (
        params.presence_penalty
        or params.frequency_penalty
        or params.repetition_penalty != 1.0
        or params.bad_words
        or params.allowed_token_ids
        or params.structured_outputs
        or params.min_tokens
        or params.logit_bias
        or params.min_p
        or params.thinking_token_budget is not None
    )
