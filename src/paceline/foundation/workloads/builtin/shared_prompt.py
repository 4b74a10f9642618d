"""Chats that begin with the same long system prompt, as those of one application do."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.workloads.heldout import HeldoutWorkload
from paceline.foundation.workloads.prompt_files import add_system_prompt
from paceline.foundation.workloads.prompts import Prompt
from paceline.foundation.workloads.workload import TextKind

SYSTEM_PROMPT = "You are the coding assistant of a Python project. " + " ".join(
    f"Rule {number}: {rule}"
    for number, rule in enumerate(
        (
            "answer with code first and keep explanations to one sentence.",
            "keep the names, the order and the types of all parameters.",
            "write docstrings in the imperative mood, with a first line of at most 72 characters.",
            "use the standard library only; name the module that a function comes from.",
            "do not catch exceptions that the original code let pass.",
            "keep the behaviour for empty sequences, None and negative numbers.",
            "use double quotes for docstrings and the quotes of the original code elsewhere.",
            "write JSON with two spaces of indentation and with keys in the given order.",
            "do not rename anything that was not mentioned in the question.",
            "leave comments where they are, and correct them only where the code changes.",
            "prefer early returns to nested conditions.",
            "use f-strings in new code and leave old formatting as it is.",
            "do not add type annotations to code that has none.",
            "keep lines below 79 characters.",
            "write no text after the code.",
        ),
        start=1,
    )
)
"""About 1,100 characters, the same in every request: a prefix cache computes it once."""


@dataclass(frozen=True, slots=True)
class SharedPromptWorkload:
    """Held-out chats after one system prompt."""

    name: str = "shared_prompt"
    description: str = "chat: complete, docstring and rename after one shared system prompt"
    temperature: float = 0.0
    text_kind: TextKind | None = None

    def prompts(self, seed: int) -> list[Prompt]:
        chats = HeldoutWorkload(self.name, self.description, ("complete", "docstring", "rename"))
        return add_system_prompt(chats.prompts(seed), SYSTEM_PROMPT)


WORKLOAD = SharedPromptWorkload()
