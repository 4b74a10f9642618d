"""The phases of the trace: their names, and the order and length in each repeat.

    REQUESTS-TEXT[-long|-prefill|-batches]

REQUESTS is the number of concurrent requests. TEXT is `predictable` (renames and JSON, greedy),
`code` (source code, greedy), `hard` (source code, sampled at temperature 1) or `mixed` (predictable
and hard requests in turn). `long` gives a long
context; `prefill` feeds prompts at most steps; `batches` runs three batches of REQUESTS prompts,
each to its end, instead of a closed loop.

For a chat model, TEXT is `chat`, `quote` (repeat or change a text in the prompt), `program` or
`any` of them in turn. Half of the requests of each are greedy and half are sampled at temperature
0.7, in turn, so that the sampling does not tell the kind of text.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

TEXTS = ("predictable", "code", "hard", "mixed")
CHATS = ("chat", "quote", "program", "any")
KINDS = ("", "long", "prefill", "batches")
NUM_BATCHES = 3

TRACE = (
    *(f"{load}-{text}" for load in (1, 4, 16, 32) for text in ("predictable", "hard")),
    *("1-code", "16-code", "1-predictable-long", "4-hard-long"),
)
MIXED = ("4-mixed", "16-mixed", "32-mixed")
PREFILL = tuple(f"{load}-{text}-prefill" for load in (4, 16, 32) for text in TEXTS[:3])
CHAT_MODEL = (
    *(f"{load}-{text}" for load in (1, 4, 16) for text in CHATS[:2]),
    *("1-program", "16-program", "4-any", "16-any"),
)
STEADY = ("16-code-batches",) * 3 + ("16-hard-batches",) * 3
SETS = {"trace": TRACE, "mixed": MIXED, "prefill": PREFILL, "steady": STEADY, "chats": CHAT_MODEL}
LEAST_TOKENS = 300
"""Output tokens of a phase, at least: with one request, the chances of acceptance alone would make
the rate of a shorter one vary by a third."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of constant traffic with a fixed amount of work."""

    name: str
    requests: int
    text: str
    kind: str
    """One of `KINDS`; "" is a closed loop with short prompts."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One phase at one place of a repeat's trace; every arm runs it before the next begins."""

    place: int
    phase: Phase
    steps: int
    """Output tokens per request slot: the number of steps without speculation."""
    seed: int

    @property
    def num_tokens(self) -> int:
        """Output tokens of the phase."""
        return max(self.phase.requests * self.steps, LEAST_TOKENS)


def parse_phase(name: str) -> Phase:
    """The phase of this name; ValueError that says what is allowed."""
    load, _, rest = name.partition("-")
    text, _, kind = rest.partition("-")
    is_known = text in (TEXTS if kind else TEXTS + CHATS)
    if not load.isdecimal() or int(load) < 1 or not is_known or kind not in KINDS:
        raise ValueError(
            f"the phase is {name!r}; it must be REQUESTS-TEXT with a text of "
            f"{', '.join(TEXTS + CHATS)}, or REQUESTS-TEXT-KIND with one of the first "
            f"{len(TEXTS)} and a kind of {', '.join(KINDS[1:])}"
        )
    return Phase(name, int(load), text, kind)


def plan_repeat(
    phases: Sequence[str], repeat: int, steps: tuple[int, int], *, is_shuffled: bool, seed: int = 0
) -> list[Turn]:
    """The turns of one repeat: the phases, shuffled or in order, each with its number of steps.

    Equal arguments give equal turns. `steps` is the range, both ends included.
    """
    draw = random.Random(f"{seed} {repeat}")
    order = [parse_phase(name) for name in phases]
    if is_shuffled:
        draw.shuffle(order)
    return [
        Turn(place, phase, draw.randint(*steps), draw.randrange(2**31))
        for place, phase in enumerate(order)
    ]


def order_of_arms(names: Sequence[str], repeat: int, place: int, *, seed: int = 0) -> list[str]:
    """The order in which the arms run one turn."""
    order = list(names)
    random.Random(f"{seed} {repeat} {place}").shuffle(order)
    return order
