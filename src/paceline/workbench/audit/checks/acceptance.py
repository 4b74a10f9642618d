"""Compare acceptance before and after drafting was off: a stale draft cache shows as a collapse.

While a request is served without drafts, the draft model may skip its pass, and the draft's KV
cache lacks these tokens. If nothing fills the gap, drafts of a continuation are guesses: acceptance
falls, and the output stays right. Tokens per event of a stream show acceptance from outside.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.together import together
from paceline.workbench.audit.values import GREEDY, Request

_NUM_PAIRS = 5
_OFF_TOKENS = 160
"""More than one block of the prefix cache: vLLM's blocks have 16 tokens, on CPUs 128."""
_MEASURED_TOKENS = 48
_COLLAPSE = 0.5
_NUM_ERRORS = 3.0


@dataclass(slots=True)
class AcceptanceResult:
    """Accepted drafts per event of streams, for each prompt."""

    after_drafting: list[float] = field(default_factory=list)
    """The text before was generated with drafts."""
    after_off: list[float] = field(default_factory=list)
    """The text before was generated without drafts."""
    why_not: str | None = None
    """Why nothing, or not all, was measured."""
    failure: str | None = None
    """The error of the server that ended the check."""

    @property
    def collapses(self) -> bool:
        """Whether acceptance falls to less than half after drafting was off."""
        return falls(self.after_drafting, self.after_off)


def falls(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether the mean falls to less than half, by more than three standard errors."""
    if len(before) < 2 or len(after) < 2:
        return False
    errors = statistics.variance(before) / len(before) + statistics.variance(after) / len(after)
    drop = statistics.mean(before) - statistics.mean(after)
    is_large = statistics.mean(after) < _COLLAPSE * statistics.mean(before)
    return is_large and drop > _NUM_ERRORS * math.sqrt(errors)


async def check_acceptance(
    server: Server, prompts: Sequence[str], result: AcceptanceResult
) -> None:
    """Fill the result. Raises `ServerError`.

    The texts before are generated together; then one stream after another is measured, because a
    governor drafts less under load.
    """
    support = server.support
    if support.off_switch is None:
        result.why_not = (
            "no drafts were seen in streams"
            if (support.tokens_per_event or 0.0) <= 1.0
            else "requests cannot switch drafts off on this server"
        )
        return
    drafted = await _generate(server, prompts, drafts=True)
    undrafted = await _generate(server, prompts, drafts=False)
    for before in zip(drafted, undrafted, strict=True):
        for whole, found in zip(before, (result.after_drafting, result.after_off), strict=True):
            counts = await server.token_counts(Request(whole, GREEDY, _MEASURED_TOKENS))
            if len(counts) > 2:
                # The first event has the token of the prompt's own step, the last one may be cut.
                found.append(statistics.mean(counts[1:-1]) - 1.0)


async def _generate(
    server: Server, prompts: Sequence[str], *, drafts: bool
) -> list[tuple[int, ...]]:
    """Prompts and their answers, as token ids."""
    # A first line of its own keeps the two kinds from sharing cached blocks.
    texts = [f"# part {2 * n + drafts}\n{text}" for n, text in enumerate(prompts[:_NUM_PAIRS])]
    requests = [Request(text, GREEDY, _OFF_TOKENS, drafts=drafts) for text in texts]
    answers = [found[0] for found in await together(map(server.complete, requests))]
    return [
        (*(one.prompt_ids or ()), *(token for token in one.tokens if isinstance(token, int)))
        for one in answers
    ]
