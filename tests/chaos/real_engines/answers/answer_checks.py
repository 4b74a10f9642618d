"""`AnswerChecks`: judge the answers of a load by the log probabilities that an engine computes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import aiohttp
from tokenizers import Tokenizer

from chaos.real_engines.answers.answer_judge import (
    AnswerLimits,
    Difference,
    ForcedToken,
    fault_of_text,
    find_difference,
    judge_ids,
    judge_sampled,
    judge_swap,
    judge_tail,
)
from chaos.real_engines.answers.engine_queries import EngineQueries
from chaos.real_engines.answers.grammar_tokens import GrammarTokens, best_listed, token_texts
from chaos.real_engines.answers.text_search import TextSearch
from chaos.real_engines.request_kinds import TOP_K, Check
from chaos.real_engines.run_report import LoadRequest
from chaos.transcript import Ending

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

    @property
    def num_tails_unjudged(self) -> int:
        """Answers whose tokens after the first difference could not be judged."""
        return sum(one["is_tail_unjudged"] for one in self.differences)


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
        self._grammars: dict[str, GrammarTokens] = {}

    async def check(self, requests: Sequence[LoadRequest]) -> Checked:
        """Judge the answers. Engines must serve meanwhile."""
        checked = Checked(0, 0, [])
        num_control = 0
        async with aiohttp.ClientSession() as session:
            queries = EngineQueries(session, self._url, self._model)
            for request in requests:
                transcript = request.transcript
                limits = AnswerLimits(request.max_tokens, self._end_ids, self._near_tie_nats)
                if request.kind.check is not Check.SAMPLED:
                    if transcript.ending not in (Ending.COMPLETED, Ending.ERROR_EVENT):
                        continue
                    checked.num_compared += 1
                    difference = await self._compare(queries, request, limits)
                elif transcript.ending is Ending.COMPLETED:
                    num_control += not request.was_interrupted
                    if not request.was_interrupted and (num_control - 1) % _CONTROL_EVERY:
                        continue
                    checked.num_sampled_judged += 1
                    difference = await self._judge_sampled(queries, request, limits)
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
        self, queries: EngineQueries, request: LoadRequest, limits: AnswerLimits
    ) -> Difference | None:
        kind, reference, answer = request.kind, request.reference, request.transcript
        is_whole = answer.ending is Ending.COMPLETED
        difference = find_difference(reference, answer, has_ids=kind.has_ids, is_whole=is_whole)
        if difference is None or difference.fault is not None:
            return difference
        if not kind.has_ids:
            return await self._judge_text(queries, request, difference, limits)
        fault = fault_of_text(answer, self._tokenizer.decode(answer.ids), is_whole=is_whole)
        if fault is not None:
            return replace(difference, fault=fault)
        forced = await queries.force(reference.prompt_ids, answer.ids)
        if kind.check is Check.GRAMMAR:
            return await self._judge_grammar(queries, request, difference, forced, limits)
        return judge_ids(difference, answer, forced, limits, is_whole=is_whole)

    async def _judge_text(
        self,
        queries: EngineQueries,
        request: LoadRequest,
        difference: Difference,
        limits: AnswerLimits,
    ) -> Difference:
        answer, prompt_ids = request.transcript, request.reference.prompt_ids
        is_whole = answer.ending is Ending.COMPLETED
        search = TextSearch(answer, self._tokenizer.decode, limits, is_whole=is_whole)
        while (ids := search.next_ids) is not None:
            search.note(await queries.generate([*prompt_ids, *ids], limits.max_tokens - len(ids)))
        return search.verdict(difference)

    async def _judge_grammar(
        self,
        queries: EngineQueries,
        request: LoadRequest,
        difference: Difference,
        forced: Sequence[ForcedToken],
        limits: AnswerLimits,
    ) -> Difference:
        """By the first token that differs, compared with the reference's, and by all after it."""
        reference, answer = request.reference, request.transcript
        at = difference.at
        theirs = await queries.force(reference.prompt_ids, reference.ids[: at + 1])
        judged = judge_swap(difference, forced[at], theirs[at], limits)
        grammar = self._grammar(request.kind.grammar)
        if not grammar.allows(self._tokenizer.decode(answer.ids[:at]), answer.ids[at]):
            return replace(judged, fault="the grammar forbids the text")
        if judged.fault is not None:
            return judged
        best_allowed = [
            await self._best_allowed(
                queries, grammar, [*reference.prompt_ids, *answer.ids[:position]],
                self._tokenizer.decode(answer.ids[:position]), forced[position],
            )
            for position in range(at + 1, len(answer.ids))
        ]  # fmt: skip
        is_whole = answer.ending is Ending.COMPLETED
        return judge_tail(judged, answer, forced[at + 1 :], best_allowed, limits, is_whole=is_whole)

    async def _best_allowed(
        self,
        queries: EngineQueries,
        grammar: GrammarTokens,
        ids_before: Sequence[int],
        text_before: str,
        own: ForcedToken,
    ) -> float | None:
        """The log probability of the most probable token that the grammar allows.

        None if it forbids the answer's own token.
        """
        is_allowed = functools.partial(grammar.allows, text_before)
        if not is_allowed(own.token):
            return None
        best = best_listed(own, is_allowed)
        if best is not None:
            return best
        allowed_ids = grammar.allowed_after(text_before)
        if allowed_ids == {own.token}:
            return own.logprobs.get(own.token)
        return await queries.best_logprob(ids_before, allowed_ids)

    async def _judge_sampled(
        self, queries: EngineQueries, request: LoadRequest, limits: AnswerLimits
    ) -> Difference | None:
        answer = request.transcript
        forced = await queries.force(answer.prompt_ids, answer.ids)
        text = self._tokenizer.decode(answer.ids)
        return judge_sampled(answer, text, forced, limits, top_k=TOP_K)

    def _grammar(self, expression: str) -> GrammarTokens:
        if expression not in self._grammars:
            texts = token_texts(self._tokenizer)
            self._grammars[expression] = GrammarTokens(expression, texts, self._end_ids)
        return self._grammars[expression]
