"""`TextSearch`: find greedy tokens that give a text whose token ids are not known.

An engine generates the answer anew. Where its text differs from the answer's, another token must be
nearly as probable as the generated one and fit the text; the engine then generates what follows
that token. So every token is judged by those before it, those after a near-tie included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from chaos.real_engines.answers.answer_judge import AnswerLimits, Difference, ForcedToken
from chaos.transcript import Transcript

MAX_FOLLOWED = 24
"""Generated continuations after which a search is given up. Chosen empirically: an answer of some
hundred tokens has a near-tie or two, and each has one or two tokens that fit."""
_HALF_A_CHARACTER = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class _Path:
    """Tokens of an answer, from its beginning."""

    ids: tuple[int, ...] = ()
    gap_nats: float = 0.0
    """The largest gap of its tokens."""


class TextSearch:
    """A depth-first search; call `note` with what an engine generates after `next_ids`.

    The answer must end at the first token that ends answers: not for `ignore_eos`.
    """

    def __init__(
        self,
        answer: Transcript,
        decode: Callable[[Sequence[int]], str],
        limits: AnswerLimits,
        *,
        is_whole: bool,
    ) -> None:
        """Unless `is_whole`, the answer may be the beginning of a text."""
        self._answer = answer
        self._decode = decode
        self._limits = limits
        self._is_whole = is_whole
        self._pending = [_Path()]
        self._found: _Path | None = None
        self._num_followed = 0
        self._num_chars = 0
        """Length of the longest beginning of the answer that was found."""

    @property
    def next_ids(self) -> tuple[int, ...] | None:
        """The tokens to continue next; None when the search is over."""
        if self._found or not self._pending or self._num_followed == MAX_FOLLOWED:
            return None
        return self._pending[-1].ids

    def note(self, continuation: Sequence[ForcedToken]) -> None:
        """Take in what an engine generates after `next_ids`, the token that ends it included."""
        path = self._pending.pop()
        self._num_followed += 1
        for generated in continuation:
            gaps = {
                token: max(generated.logprobs.values()) - logprob
                for token, logprob in generated.logprobs.items()
            }
            for token in sorted(gaps, key=lambda token: -gaps[token]):  # the best one comes last
                if token != generated.token and gaps[token] <= self._limits.near_tie_nats:
                    other = _extended(path, token, gaps[token])
                    if self._can_continue(other):
                        self._pending.append(other)
            path = _extended(path, generated.token, gaps.get(generated.token, 0.0))
            if not self._can_continue(path):
                return

    def verdict(self, difference: Difference) -> Difference:
        """Judge an answer with this difference, when the search is over."""
        if self._found is not None:
            return replace(difference, gap_nats=self._found.gap_nats)
        if self._pending:
            return replace(difference, is_tail_unjudged=True)
        rest = self._answer.text[self._num_chars :][:20]
        end = f"{rest!r}" if rest else f"its end, {self._answer.finish_reasons}"
        return replace(difference, fault=f"no nearly equal token continues it with {end}")

    def _can_continue(self, path: _Path) -> bool:
        """Whether the answer begins with this path and continues after it. Notes the right end."""
        text = self._decode(path.ids).rstrip(_HALF_A_CHARACTER)
        answer = self._answer.text.rstrip(_HALF_A_CHARACTER)
        if not self._is_whole and text.startswith(answer):
            self._found = path
            return False
        if not answer.startswith(text):
            return False
        self._num_chars = max(self._num_chars, len(text))
        is_stop = path.ids[-1] in self._limits.end_ids
        if not is_stop and len(path.ids) < self._limits.max_tokens:
            return True
        if text == answer and self._answer.finish_reasons == ["stop" if is_stop else "length"]:
            self._found = path
        return False


def _extended(path: _Path, token: int, gap_nats: float) -> _Path:
    return _Path((*path.ids, token), max(path.gap_nats, gap_nats))
