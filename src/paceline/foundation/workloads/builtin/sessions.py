"""Sessions of several turns: the context grows by every answer, and the user pauses to think."""

from __future__ import annotations

import random
from dataclasses import dataclass

from paceline.foundation.workloads.heldout import HeldoutWorkload
from paceline.foundation.workloads.prompts import Prompt, Turn
from paceline.foundation.workloads.workload import TextKind

NUM_TURNS = 4
"""With the first; the last request then has about 800 tokens."""
MAX_ANSWER_TOKENS = 96
MEAN_THINK_S = 1.0
MAX_THINK_S = 5.0
"""Times of a chat that is used briskly; chosen empirically. A file of your own may hold others."""


@dataclass(frozen=True, slots=True)
class SessionsWorkload:
    """Held-out chats, four to a session, with random think times between them."""

    name: str = "sessions"
    description: str = "chat: sessions of 4 turns with growing context and 1 s of think time"
    temperature: float = 0.0
    text_kind: TextKind | None = None

    def prompts(self, seed: int) -> list[Prompt]:
        chats = HeldoutWorkload(self.name, self.description, ("complete", "docstring", "json"))
        questions = chats.prompts(seed)
        generator = random.Random(seed)
        sessions = []
        for start in range(0, len(questions) - NUM_TURNS + 1, NUM_TURNS):
            first, *later = questions[start : start + NUM_TURNS]
            turns = tuple(
                Turn(_content(prompt), min(generator.expovariate(1 / MEAN_THINK_S), MAX_THINK_S))
                for prompt in later
            )
            sessions.append(
                Prompt("sessions", first.messages, None, MAX_ANSWER_TOKENS, turns=turns)
            )
        return sessions


def _content(prompt: Prompt) -> str:
    assert prompt.messages is not None
    return str(prompt.messages[-1]["content"])


WORKLOAD = SessionsWorkload()
