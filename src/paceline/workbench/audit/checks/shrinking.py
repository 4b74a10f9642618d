"""Shorten the prompt of a wrong greedy token for as long as the fault stays."""

from __future__ import annotations

from paceline.workbench.audit.checks.greedy import WrongToken
from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.statistics.greedy import judge_greedy
from paceline.workbench.audit.values import GREEDY, Request

_MAX_TRIES = 12
_MORE_TOKENS = 4


async def shrink(
    server: Server, truth: Truth, wrong: WrongToken, *, near_tie_nats: float
) -> WrongToken:
    """A wrong token after the shortest end of the prompt that still has one.

    Halves the prompt from its start, then drops less and less. Raises `ServerError`.
    """
    best = wrong
    dropped = len(best.prompt) // 2
    for _ in range(_MAX_TRIES):
        if dropped < 1:
            break
        shorter = best.prompt[dropped:]
        request = Request(shorter, GREEDY, wrong.deviation.position + 1 + _MORE_TOKENS)
        answer = (await server.complete(request))[0]
        prompt_ids = answer.prompt_ids or ()
        [positions] = await truth.logprobs([(prompt_ids, answer.tokens)])
        verdict = judge_greedy(answer.tokens, positions, near_tie_nats=near_tie_nats)
        if not verdict.is_lossless:
            best = WrongToken(shorter, prompt_ids, answer.tokens, verdict.wrong[0])
            dropped = min(dropped, len(shorter) // 2)
        else:
            dropped //= 2
    return best
