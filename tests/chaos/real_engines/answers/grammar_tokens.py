"""`GrammarTokens`: the tokens that a regular expression allows after a text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import regex
from tokenizers import Tokenizer

from chaos.real_engines.answers.answer_judge import NUM_LOGPROBS, ForcedToken


class GrammarTokens:
    """A grammar over the tokens of a model, as an engine's guided decoding has it."""

    def __init__(self, grammar: str, texts: Sequence[str], end_ids: Collection[int]) -> None:
        """`texts` has the text of each token; empty for special ones, which are never allowed,
        apart from `end_ids` at the end."""
        self._grammar = regex.compile(grammar)
        self._texts = texts
        self._end_ids = frozenset(end_ids)
        self._first_characters = {text[0] for text in texts if text}
        self._known: dict[str, frozenset[int]] = {}

    def allows(self, text: str, token: int) -> bool:
        """Whether the token may follow this text."""
        if token in self._end_ids:
            return self._grammar.fullmatch(text) is not None
        added = self._texts[token] if token < len(self._texts) else ""  # a model may have more
        return bool(added) and self._can_begin(text + added)

    def allowed_after(self, text: str) -> frozenset[int]:
        """All tokens that may follow this text."""
        if text not in self._known:
            firsts = {one for one in self._first_characters if self._can_begin(text + one)}
            self._known[text] = frozenset(
                token
                for token, added in enumerate(self._texts)
                if (added[:1] in firsts or token in self._end_ids) and self.allows(text, token)
            )
        return self._known[text]

    def _can_begin(self, text: str) -> bool:
        return self._grammar.fullmatch(text, partial=True) is not None


def best_listed(one: ForcedToken, is_allowed: Callable[[int], bool]) -> float | None:
    """The log probability of the most probable allowed token.

    None if all of the most probable tokens, which are listed, are forbidden: then there may be more
    probable ones than the allowed ones that are listed.
    """
    listed = sorted(one.logprobs.values(), reverse=True)[:NUM_LOGPROBS]
    allowed = [logprob for token, logprob in one.logprobs.items() if is_allowed(token)]
    best = max(allowed, default=None)
    return best if best is not None and best >= listed[-1] else None


def token_texts(tokenizer: Tokenizer) -> list[str]:
    """The text of every token; empty for special ones."""
    return [tokenizer.decode([token]) for token in range(tokenizer.get_vocab_size())]
