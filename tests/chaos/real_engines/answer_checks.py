"""`AnswerChecks`: judge the answers of a load by the log probabilities that an engine computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import aiohttp
import regex
from tokenizers import Tokenizer

from chaos.real_engines.answer_judge import (
    AnswerLimits,
    Difference,
    ForcedToken,
    find_difference,
    judge_ids,
    judge_sampled,
    judge_swap,
    judge_text,
)
from chaos.real_engines.forced_tokens import fetch_forced_tokens
from chaos.real_engines.request_kinds import TOP_K, Check
from chaos.real_engines.run_report import LoadRequest
from chaos.transcript import Ending, Transcript

_CONTROL_EVERY = 20
"""One in this many of the sampled answers that no fault interrupted is judged, the first among
them: an engine has to compute each of them again."""


@dataclass
class Checked:
    """The result of the checks. The field names are keys of the results."""

    num_compared: int
    """Greedy answers compared with their references, incomplete ones included."""
    num_sampled_judged: int
    differences: list[dict[str, Any]]
    """All answers that differ; `fault` is None for those that rounding explains."""

    @property
    def faults(self) -> list[dict[str, Any]]:
        return [one for one in self.differences if one["fault"] is not None]


class AnswerChecks:
    """Judges answers. The gateway at `url` must grant `prompt_logprobs`."""

    def __init__(
        self,
        url: str,
        model: str,
        end_ids: Sequence[int],
        near_tie_nats: float,
        tokenizer: Tokenizer,
    ) -> None:
        """`end_ids` are the tokens that end the model's answers."""
        self._url = url
        self._model = model
        self._end_ids = end_ids
        self._near_tie_nats = near_tie_nats
        self._tokenizer = tokenizer

    async def check(self, requests: Sequence[LoadRequest]) -> Checked:
        """Judge the answers. Engines must serve meanwhile."""
        checked = Checked(0, 0, [])
        num_control = 0
        async with aiohttp.ClientSession() as session:
            for request in requests:
                transcript = request.transcript
                limits = AnswerLimits(request.max_tokens, self._end_ids, self._near_tie_nats)
                if request.kind.check is not Check.SAMPLED:
                    if transcript.ending not in (Ending.COMPLETED, Ending.ERROR_EVENT):
                        continue
                    checked.num_compared += 1
                    difference = await self._compare(session, request, limits)
                elif transcript.ending is Ending.COMPLETED:
                    num_control += not request.was_interrupted
                    if not request.was_interrupted and (num_control - 1) % _CONTROL_EVERY:
                        continue
                    checked.num_sampled_judged += 1
                    difference = await self._judge_sampled(session, request, limits)
                else:
                    continue
                if difference is not None:
                    checked.differences.append(
                        {
                            "request": transcript.request_id,
                            "kind": request.kind.name,
                            "was_struck": request.was_interrupted,
                            "num_tokens": len(transcript.ids),
                            **asdict(difference),
                        }
                    )
        return checked

    async def _compare(
        self, session: aiohttp.ClientSession, request: LoadRequest, limits: AnswerLimits
    ) -> Difference | None:
        kind, reference, answer = request.kind, request.reference, request.transcript
        is_whole = answer.ending is Ending.COMPLETED
        difference = find_difference(reference, answer, has_ids=kind.has_ids, is_whole=is_whole)
        if difference is None or difference.fault is not None:
            return difference
        if not kind.has_ids:
            return await self._judge_text(session, request, difference, limits)
        if kind.check is Check.GRAMMAR:
            end = difference.at + 1
            own = await self._force(session, reference, answer.ids[:end])
            theirs = await self._force(session, reference, reference.ids[:end])
            judged = judge_swap(difference, own[-1], theirs[-1], limits)
            found = regex.fullmatch(kind.grammar, answer.text, partial=True)
            is_allowed = found and not (found.partial and answer.finish_reasons == ["stop"])
            return judged if is_allowed else replace(judged, fault="the grammar forbids the text")
        forced = await self._force(session, reference, answer.ids)
        return judge_ids(difference, answer, forced, limits, is_whole=is_whole)

    async def _judge_text(
        self,
        session: aiohttp.ClientSession,
        request: LoadRequest,
        difference: Difference,
        limits: AnswerLimits,
    ) -> Difference:
        """By the token at the first difference, or else by all tokens that the text consists of.

        The model may have used others for the same text, so neither way alone is sure to be right.
        """
        answer, reference = request.transcript, request.reference
        forced = await self._force(session, reference, reference.ids, as_ids=False)
        by_first_token = judge_text(difference, answer, forced, limits)
        if by_first_token.fault is None:
            return by_first_token
        is_whole = answer.ending is Ending.COMPLETED
        ids = self._tokenizer.encode(answer.text, add_special_tokens=False).ids
        if answer.finish_reasons == ["stop"]:
            ids = [*ids, self._end_ids[0]]
        if not is_whole:
            ids = ids[:-1]  # the stream may have ended within this token
        if not ids:
            return by_first_token
        forced = await self._force(session, reference, ids)
        judged = judge_ids(difference, replace(answer, ids=ids), forced, limits, is_whole=is_whole)
        return judged if judged.fault is None else by_first_token

    async def _judge_sampled(
        self, session: aiohttp.ClientSession, request: LoadRequest, limits: AnswerLimits
    ) -> Difference | None:
        answer = request.transcript
        forced = await self._force(session, answer, answer.ids)
        text = self._tokenizer.decode(answer.ids)
        return judge_sampled(answer, text, forced, limits, top_k=TOP_K)

    async def _force(
        self,
        session: aiohttp.ClientSession,
        prompt: Transcript,
        answer_ids: Sequence[int],
        *,
        as_ids: bool = True,
    ) -> list[ForcedToken]:
        """What an engine computes for these tokens after the prompt of that answer."""
        return await fetch_forced_tokens(
            session, self._url, self._model, prompt.prompt_ids, answer_ids, as_ids=as_ids
        )
