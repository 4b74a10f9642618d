"""The mock model: a vocabulary, a token function and the answers that follow from them."""

from paceline.testing.mock_vllm.model.answer import (
    Answer,
    AnswerDelta,
    AnswerGenerator,
    expected_answer,
)
from paceline.testing.mock_vllm.model.sampling import SamplingParams

__all__ = ["Answer", "AnswerDelta", "AnswerGenerator", "SamplingParams", "expected_answer"]
