"""A drafter class that vLLM loads by its name (method `custom_class`)."""

from __future__ import annotations

from typing import Any


class RepeatingDrafter:
    """Proposes the last token again, always as often as the maximum allows."""

    def __init__(self, vllm_config: Any) -> None:
        self._num_tokens = vllm_config.speculative_config.num_speculative_tokens

    def load_model(self, target_model: Any) -> None:
        """It has no model."""

    def propose(
        self, sampled_token_ids: list[list[int]], *_: Any, slot_mappings: Any = None
    ) -> list[list[int]]:
        return [tokens[-1:] * self._num_tokens for tokens in sampled_token_ids]
