"""vLLM's own input batch, samplers and sampling step around an artificial target; no engine.

`SamplingBatch` runs vLLM's `InputBatch`, `Sampler`, `RejectionSampler`, logits processors, thinking
budget and `GPUModelRunner._sample` (with Paceline's wrapper) on logits that a function of the
prefix returns. A step takes the drafts of each request, so a test sets any draft length for any
request in any step, and compares with the same request alone in a batch without speculation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import vllm._custom_ops  # noqa: F401 - loads the CPU kernels
from vllm import SamplingParams
from vllm.platforms import current_platform
from vllm.v1.core.sched.output import GrammarOutput
from vllm.v1.sample.rejection_sampler import RejectionSampler
from vllm.v1.sample.sampler import Sampler
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder
from vllm.v1.structured_output.utils import apply_grammar_bitmask
from vllm.v1.worker import gpu_model_runner
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from paceline.runtime.engine import plugin

VOCABULARY = 24
EOS = 0
MAX_ROWS = 6
MAX_TOKENS = 64
CPU = torch.device("cpu")

Target = Callable[[tuple[int, ...]], torch.Tensor]
"""Logits of shape (VOCABULARY,) after a prefix of prompt and output."""
Grammar = Callable[[tuple[int, ...]], Sequence[int]]
"""The tokens that a grammar allows after an output."""


@dataclass(frozen=True, slots=True)
class Case:
    """A request with one sampling feature."""

    parameters: Mapping[str, Any]
    target: Target
    prompt: tuple[int, ...] = (5, 6, 7)
    bad_words: tuple[tuple[int, ...], ...] = ()
    grammar: Grammar | None = None
    num_tokens: int = 20

    def sampling_params(self) -> SamplingParams:
        params = SamplingParams(
            **{"temperature": 0.0, "max_tokens": MAX_TOKENS, **self.parameters},
        )
        params._all_stop_token_ids = {EOS}
        if self.bad_words:
            params._bad_words_token_ids = [list(word) for word in self.bad_words]
        return params


@dataclass(slots=True)
class Output:
    """What a request has produced: tokens, and per token its log-probabilities by token id."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[dict[int, float]] = field(default_factory=list)


@functools.cache
def _patch_worker() -> None:
    """Patch this process as vLLM's worker does before it samples."""
    plugin.register()
    current_platform.register_triton_kernel_overrides()


def hashed_target(seed: int, bias: Mapping[int, float] | None = None) -> Target:
    """A target with random logits that depend on the last four tokens of the prefix."""

    @functools.cache
    def logits_after(tokens: tuple[int, ...]) -> torch.Tensor:
        generator = torch.Generator().manual_seed(hash((seed, *tokens)) % 2**63)
        row = torch.randn(VOCABULARY, generator=generator) * 2
        for token, value in (bias or {}).items():
            row[token] += value
        return row

    return lambda prefix: logits_after(prefix[-4:])


class SamplingBatch:
    """A worker's persistent batch of requests, and its sampling step."""

    def __init__(
        self,
        *,
        max_draft_length: int,
        thinking: tuple[Sequence[int], Sequence[int]] | None = None,
        logprobs_mode: Any = "raw_logprobs",
        is_stock: bool = False,
    ) -> None:
        """`thinking`: the token ids that start and end a thinking section; None for no budgets.

        `is_stock`: with vLLM's own holder of the thinking budgets.
        """
        _patch_worker()
        config = SimpleNamespace(
            scheduler_config=SimpleNamespace(max_num_seqs=MAX_ROWS),
            speculative_config=SimpleNamespace() if max_draft_length else None,
        )
        reasoning = None
        if thinking is not None:
            reasoning = SimpleNamespace(
                reasoning_start_token_ids=list(thinking[0]),
                reasoning_end_token_ids=list(thinking[1]),
            )
        batch_arguments: dict[str, Any] = {"reasoning_config": reasoning}
        self.batch = InputBatch(
            max_num_reqs=MAX_ROWS,
            max_model_len=256,
            max_num_batched_tokens=256,
            device=CPU,
            vocab_size=VOCABULARY,
            block_sizes=[16],
            max_num_blocks_per_req=[16],
            logitsprocs=gpu_model_runner.build_logitsprocs(config, CPU, False, False),
            num_spec_tokens=max_draft_length,
            **batch_arguments,
        )
        if is_stock and self.batch.thinking_budget_state_holder is not None:
            self.batch.thinking_budget_state_holder = ThinkingBudgetStateHolder(
                reasoning, MAX_ROWS, max_draft_length, CPU, False
            )
        # As `CPUModelRunner` does: device tensors are the CPU tensors.
        for name, value in vars(self.batch).items():
            if name.endswith("_cpu_tensor") and isinstance(value, torch.Tensor):
                device_name = name.removesuffix("_cpu_tensor")
                if isinstance(getattr(self.batch, device_name, None), torch.Tensor):
                    setattr(self.batch, device_name, value)
        self.is_speculative = max_draft_length > 0
        runner: Any = gpu_model_runner.GPUModelRunner.__new__(gpu_model_runner.GPUModelRunner)
        runner.input_batch = self.batch
        runner.sampler = Sampler(logprobs_mode=logprobs_mode)
        runner.rejection_sampler = RejectionSampler(runner.sampler)
        runner.use_async_scheduling = False
        runner.device = CPU
        runner._draft_probs = runner._draft_prob_req_ids = runner._draft_token_req_ids = None
        runner.arange_np = np.arange(4096)
        runner._arange_scratch = np.empty(4096, dtype=np.int64)
        self.runner = runner
        self.cases: dict[str, Case] = {}
        self.states: dict[str, CachedRequestState] = {}
        self.outputs: dict[str, Output] = {}

    def step(
        self,
        drafts: Mapping[str, Sequence[int]] | None = None,
        *,
        add: Mapping[str, Case] | None = None,
        remove: Sequence[str] = (),
        swap: tuple[str, str] | None = None,
        prefilling: Sequence[str] = (),
    ) -> None:
        """Change the batch as vLLM's `_update_states` does, then sample.

        `drafts`: the draft tokens to verify, by request; absent means none. `prefilling`: requests
        whose prompt is incomplete, so that the sampled token is discarded.
        """
        scheduled = {name: list(tokens) for name, tokens in (drafts or {}).items() if tokens}
        for name in remove:
            self.batch.remove_request(name)
        for name, state in self.states.items():
            if name in self.batch.req_id_to_index:
                self.batch.update_req_spec_token_ids(state, scheduled)
        for name, case in (add or {}).items():
            self._add(name, case)
            self.batch.update_req_spec_token_ids(self.states[name], scheduled)
        self.batch.condense()
        if swap is not None:
            self.batch.swap_states(*(self.batch.req_id_to_index[name] for name in swap))
        self.batch.refresh_metadata()
        self._sample(scheduled, prefilling)

    def _add(self, name: str, case: Case) -> None:
        params = case.sampling_params()
        generator = None
        if params.seed is not None:
            generator = torch.Generator().manual_seed(params.seed)
        self.cases[name] = case
        self.outputs.setdefault(name, Output())
        self.states[name] = CachedRequestState(
            req_id=name,
            prompt_token_ids=list(case.prompt),
            mm_features=[],
            sampling_params=params,
            generator=generator,
            block_ids=([0],),
            num_computed_tokens=0,
            output_token_ids=list(self.outputs[name].tokens),
        )
        self.batch.add_request(self.states[name])

    def _sample(self, scheduled: Mapping[str, list[int]], prefilling: Sequence[str]) -> None:
        names = self.batch.req_ids
        rows, inputs = [], []
        for name in names:
            prefix = (*self.cases[name].prompt, *self.outputs[name].tokens)
            for token in (*scheduled.get(name, ()), None):
                rows.append(self.cases[name].target(prefix))
                inputs.append(prefix[-1])
                if token is not None:
                    prefix = (*prefix, token)
        logits = torch.stack(rows)
        self._apply_grammars(logits, scheduled)
        num_drafts = np.array([len(scheduled.get(name, ())) for name in names], dtype=np.int32)
        metadata = None
        if self.is_speculative:
            self.runner.input_ids = SimpleNamespace(gpu=torch.tensor(inputs, dtype=torch.int32))
            metadata = self.runner._calc_spec_decode_metadata(
                num_drafts, np.cumsum(num_drafts + 1, dtype=np.int32)
            )
        sampled = self.runner._sample(logits, metadata)
        tokens, logprobs = RejectionSampler.parse_output(
            sampled.sampled_token_ids, VOCABULARY, (), sampled.logprobs_tensors
        )
        for row, name in enumerate(names):
            if name in prefilling:
                continue
            output = self.outputs[name]
            output.tokens += tokens[row]
            self.states[name].output_token_ids.extend(tokens[row])
            self.batch.num_tokens_no_spec[row] += len(tokens[row])
            if logprobs is not None and self.cases[name].sampling_params().logprobs is not None:
                kept = logprobs.slice_request(row, len(tokens[row]))
                output.logprobs += [
                    dict(zip(ids, values, strict=True))
                    for ids, values in zip(
                        kept.logprob_token_ids.tolist(), kept.logprobs.tolist(), strict=True
                    )
                ]

    def _apply_grammars(self, logits: torch.Tensor, scheduled: Mapping[str, list[int]]) -> None:
        masks, names = [], []
        for name in reversed(self.batch.req_ids):  # the scheduler's order is not the batch's
            grammar = self.cases[name].grammar
            if grammar is None:
                continue
            names.append(name)
            prefix = tuple(self.outputs[name].tokens)
            for token in (*scheduled.get(name, ()), None):
                masks.append([sum(1 << allowed for allowed in grammar(prefix))])
                if token is not None:
                    prefix = (*prefix, token)
        if names:
            apply_grammar_bitmask(
                SimpleNamespace(scheduled_spec_decode_tokens=dict(scheduled)),
                GrammarOutput(names, np.array(masks, dtype=np.int32)),
                self.batch,
                logits,
            )


def alone(case: Case, **batch_arguments: Any) -> Output:
    """The case's output in a batch of its own, without speculation, by vLLM's own classes."""
    batch = SamplingBatch(max_draft_length=0, is_stock=True, **batch_arguments)
    batch.step(add={"only": case})
    while len(batch.outputs["only"].tokens) < case.num_tokens:
        batch.step()
    return batch.outputs["only"]
