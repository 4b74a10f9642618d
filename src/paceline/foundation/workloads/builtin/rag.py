"""Questions after long retrieved passages: long prompts, short answers."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.workloads.heldout import load_heldout
from paceline.foundation.workloads.prompts import Prompt, shuffle_prompts
from paceline.foundation.workloads.workload import TextKind

MAX_PASSAGE_CHARS = 3200
"""Of all passages: about 1,000 tokens, so that the bundled pair's 2,048 hold the prompt."""
MAX_ANSWER_TOKENS = 96


@dataclass(frozen=True, slots=True)
class RagWorkload:
    """Each question about a function follows source files that a retriever might have found."""

    name: str = "rag"
    description: str = "chat: a question after about 1,000 tokens of retrieved source code"
    temperature: float = 0.0
    text_kind: TextKind | None = None

    def prompts(self, seed: int) -> list[Prompt]:
        heldout = load_heldout()
        passages = shuffle_prompts([p for p in heldout if p.task == "code"], seed)
        questions = shuffle_prompts([p for p in heldout if p.task == "docstring"], seed)
        texts = [passage.text for passage in passages if passage.text]
        return [
            _ask(question, texts[at % len(texts) :] + texts[: at % len(texts)])
            for at, question in enumerate(questions)
        ]


def _ask(question: Prompt, texts: list[str]) -> Prompt:
    """The question after as many texts as fit, in their order."""
    assert question.messages is not None
    found: list[str] = []
    for text in texts:
        if sum(map(len, found)) + len(text) <= MAX_PASSAGE_CHARS:
            found.append(text)
    passages = "\n\n".join(f"[{number}]\n{text}" for number, text in enumerate(found, start=1))
    content = (
        f"Passages from the project:\n\n{passages}\n\n"
        f"With these in mind:\n\n{question.messages[-1]['content']}"
    )
    message = {"role": "user", "content": content}
    return Prompt("rag", (*question.messages[:-1], message), None, MAX_ANSWER_TOKENS)


WORKLOAD = RagWorkload()
