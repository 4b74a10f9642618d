"""The texts that both models score: the baseline's own answers, and the prompts' references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paceline.foundation.answer_quality.values import Text, TextKind
from paceline.foundation.models.values import Answer
from paceline.workbench.quality.prompts import PromptFile


def collect_texts(
    answers: Sequence[Answer], file: PromptFile, tokenizer: Any, max_tokens: int
) -> list[Text]:
    """One text per answer, and one per prompt with a reference, cut at `max_tokens`."""
    return [*_answers(answers), *_references(file, tokenizer, max_tokens)]


def _answers(answers: Sequence[Answer]) -> Iterator[Text]:
    for answer in answers:
        kind = TextKind.GREEDY if answer.sampling.is_greedy else TextKind.SAMPLED
        yield Text(
            key=f"{kind} {answer.sampling.label} {answer.key}",
            conversation=answer.conversation,
            kind=kind,
            prompt_ids=answer.prompt_ids,
            token_ids=answer.token_ids[: answer.num_tokens],
        )


def _references(file: PromptFile, tokenizer: Any, max_tokens: int) -> Iterator[Text]:
    for prompt in file.prompts.prompts:
        reference = file.reference(prompt.key)
        if reference is None:
            continue
        ids = tokenizer(reference, add_special_tokens=False)["input_ids"][:max_tokens]
        if ids:
            yield Text(
                key=f"{TextKind.REFERENCE} {prompt.key}",
                conversation=prompt.conversation,
                kind=TextKind.REFERENCE,
                prompt_ids=prompt.token_ids,
                token_ids=tuple(ids),
            )
