"""The settings of the mock server: model name, limits, speed and token pattern."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.testing.mock_vllm.answer_style import AnswerStyle, read_styles
from paceline.testing.mock_vllm.model.answer import DEFAULT_EOS_EVERY_TOKENS
from paceline.testing.mock_vllm.model.speculation import Speculation

DRAFT_METRICS = ("none", "summary")
BLOCK_TOKENS = 16
"""Tokens per block of the virtual KV cache; vLLM's default."""


@dataclass(frozen=True, slots=True)
class MockVllmSettings:
    """The flags of `paceline mock-vllm`."""

    model: str = "mock_vllm"
    max_model_len: int = 4096
    tpot_ms: float = 20.0
    """Time per output token of a request that runs alone. With `speculation`: time per step of a
    request without its draft tokens."""
    tpot_per_sequence_ms: float = 0.0
    """Added to it for every other running sequence."""
    prefill_tokens_per_s: float = 20_000.0
    """Prefill rate. Prompts are prefilled one after another; cached tokens take no time."""
    max_num_seqs: int = 256
    """Maximum number of running sequences; further sequences are queued."""
    num_kv_blocks: int = 0
    """Blocks of 16 tokens in the virtual KV cache; 0: enough for `max_num_seqs` full contexts."""
    tokens_per_chunk: tuple[int, ...] = (1,)
    """Tokens in each chunk of a stream; the pattern repeats."""
    speculation: Speculation | None = None
    """Draft lengths and acceptance by script; None: no draft tokens."""
    draft_ms: float = 0.0
    """Time per draft token of a step."""
    verify_ms: float = 0.0
    """Time per draft token of a step and per running sequence: what the load adds."""
    per_request_spec_decode_metrics: str = "none"
    """`summary`: an answer of one choice ends with its own counts of drafts, as vLLM's does."""
    speculates: bool = False
    """Refuse `min_p` and `logit_bias` and report draft counters, as vLLM does with speculative
    decoding."""
    eos_every_tokens: int = DEFAULT_EOS_EVERY_TOKENS
    """Average number of tokens before an answer ends with EOS; 0: it never does."""
    answer_style: frozenset[AnswerStyle] = frozenset()
    """How answers are written: as by other servers and by proxies."""
    api_key: str = ""
    """Bearer token required under /v1 and on some other paths; empty: none is required."""
    seed: int = 0
    """Seed of the random draws: seeds of sampling requests that name none, faults with a rate."""

    def __post_init__(self) -> None:
        read_styles(self.answer_style)
        if not self.model:
            raise ValueError("model must not be empty: it is the name that requests must give.")
        for name in ("tpot_ms", "tpot_per_sequence_ms", "draft_ms", "verify_ms"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")
        if self.speculation is None and (self.draft_ms or self.verify_ms):
            raise ValueError(
                "draft_ms and verify_ms are times of draft tokens; give speculative_config too."
            )
        if self.speculation is not None and self.tokens_per_chunk != (1,):
            raise ValueError(
                "tokens_per_chunk and speculative_config exclude each other: both decide how many "
                "tokens a chunk has."
            )
        if self.per_request_spec_decode_metrics not in DRAFT_METRICS:
            raise ValueError(
                f"per_request_spec_decode_metrics must be one of {', '.join(DRAFT_METRICS)}, got "
                f"{self.per_request_spec_decode_metrics!r}."
            )
        if self.speculation is None and self.per_request_spec_decode_metrics != "none":
            raise ValueError(
                "per_request_spec_decode_metrics counts drafts; give speculative_config too."
            )
        if self.prefill_tokens_per_s <= 0:
            raise ValueError(
                f"prefill_tokens_per_s must be positive, got {self.prefill_tokens_per_s}."
            )
        for name in ("max_model_len", "max_num_seqs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("num_kv_blocks", "eos_every_tokens"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, got {getattr(self, name)}.")
        if 0 < self.num_kv_blocks < self._blocks_per_sequence:
            raise ValueError(
                f"num_kv_blocks must hold one full context (max_model_len={self.max_model_len}): "
                f"0 or at least {self._blocks_per_sequence}, got {self.num_kv_blocks}."
            )
        if not self.tokens_per_chunk or min(self.tokens_per_chunk) < 1:
            raise ValueError(
                f"tokens_per_chunk must be counts of at least 1, got {self.tokens_per_chunk}."
            )

    @property
    def drafts(self) -> bool:
        """Whether the server answers as a vLLM with speculative decoding."""
        return self.speculates or self.speculation is not None

    @property
    def kv_blocks(self) -> int:
        return self.num_kv_blocks or self.max_num_seqs * self._blocks_per_sequence

    @property
    def _blocks_per_sequence(self) -> int:
        return self.max_model_len // BLOCK_TOKENS + 1
