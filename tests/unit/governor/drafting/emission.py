"""The law of the tokens that a step of speculation emits, by enumeration on three tokens.

A step drafts for each request of a batch, keeps some of its drafts, and verifies those by standard
rejection sampling (Leviathan et al., arXiv 2211.17192):

    accept d with probability min(1, p(d) / q(d)), else emit a draw from max(p - q, 0), normalised;
    after the last kept token, all accepted, emit a draw from p

with p the target's law and q the draft's, each given the tokens before. What follows an emitted
text is completed by the target's law, so that texts of different lengths can be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

import numpy as np

Floats = np.ndarray
Text = tuple[int, ...]

VOCABULARY = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and a draft model of one request: the law of the next token after each text."""

    target: dict[Text, Floats]
    draft: dict[Text, Floats]
    is_greedy: bool
    """Whether the draft model takes its likeliest token: then it is verified with q = 1 there."""

    def proposal(self, text: Text) -> Floats:
        """The law that the draft token after this text is drawn from."""
        probs = self.draft[text]
        return np.eye(VOCABULARY)[probs.argmax()] if self.is_greedy else probs


def random_pair(random: np.random.Generator, num_tokens: int, *, is_greedy: bool = False) -> Pair:
    """Laws that depend on the text before, for texts of up to `num_tokens`; the target's are near
    the draft's in some places and far in others."""
    target, draft = {}, {}
    for length in range(num_tokens + 1):
        for text in product(range(VOCABULARY), repeat=length):
            draft[text] = random.dirichlet(np.full(VOCABULARY, 0.7))
            near = random.dirichlet(20.0 * draft[text] + 0.3)
            target[text] = near if random.random() < 0.7 else random.dirichlet(np.ones(VOCABULARY))
    return Pair(target, draft, is_greedy)


@dataclass(frozen=True, slots=True)
class Drafted:
    """What was drafted in some passes, each of shape (num_requests,)."""

    confidences: tuple[Floats, ...]
    """The largest probability of the draft's law, of each pass."""
    own: tuple[Floats, ...]
    """The probability of the token that was drawn."""
    texts: tuple[Text, ...] = ()
    """The tokens, by request. No lossless decision reads them."""


class Keeping(Protocol):
    """Decides what is drafted and kept."""

    def wants_more(self, drafted: Drafted) -> bool:
        """Whether another pass runs after these."""
        ...

    def widths(self, drafted: Drafted) -> Sequence[int]:
        """Tokens of each request that are verified."""
        ...


def emitted_laws(pairs: Sequence[Pair], keeping: Keeping, num_tokens: int) -> list[Floats]:
    """The law of the next `num_tokens` + 1 tokens of each request, if up to `num_tokens` are
    drafted; of shape (VOCABULARY,) * (num_tokens + 1) each."""
    laws = [np.zeros((VOCABULARY,) * (num_tokens + 1)) for _ in pairs]
    for texts, weight, widths in _drafts(pairs, keeping, num_tokens):
        for law, pair, text, width in zip(laws, pairs, texts, widths, strict=True):
            _verify(law, pair, text[:width], weight)
    return laws


def target_law(pair: Pair, num_tokens: int) -> Floats:
    """The law of the next `num_tokens` + 1 tokens without speculation."""
    law = np.zeros((VOCABULARY,) * (num_tokens + 1))
    _complete(law, pair, (), 1.0)
    return law


def distance(one: Floats, other: Floats) -> float:
    """Total variation."""
    return 0.5 * float(np.abs(one - other).sum())


def _drafts(
    pairs: Sequence[Pair], keeping: Keeping, num_tokens: int
) -> Iterator[tuple[tuple[Text, ...], float, Sequence[int]]]:
    """The drafts of all requests, their probability, and the widths kept of them."""

    def follow(
        texts: tuple[Text, ...], weight: float, drafted: Drafted
    ) -> Iterator[tuple[tuple[Text, ...], float, Sequence[int]]]:
        num_passes = len(drafted.confidences)
        if num_passes and (num_passes == num_tokens or not keeping.wants_more(drafted)):
            yield texts, weight, keeping.widths(replace(drafted, texts=texts))
            return
        confidences = [pair.draft[text].max() for pair, text in zip(pairs, texts, strict=True)]
        laws = [pair.proposal(text) for pair, text in zip(pairs, texts, strict=True)]
        for drawn in product(range(VOCABULARY), repeat=len(pairs)):
            own = np.array([law[token] for law, token in zip(laws, drawn, strict=True)])
            if own.prod() > 0.0:
                yield from follow(
                    tuple((*text, token) for text, token in zip(texts, drawn, strict=True)),
                    weight * float(own.prod()),
                    Drafted((*drafted.confidences, np.array(confidences)), (*drafted.own, own)),
                )

    yield from follow(((),) * len(pairs), 1.0, Drafted((), ()))


def _verify(law: Floats, pair: Pair, kept: Text, weight: float) -> None:
    for position, token in enumerate(kept):
        text = kept[:position]
        target_probs, draft_probs = pair.target[text], pair.proposal(text)
        accept = min(1.0, target_probs[token] / draft_probs[token])
        if accept < 1.0:
            residual = np.maximum(target_probs - draft_probs, 0.0)
            for other, probability in enumerate(residual / residual.sum()):
                _complete(law, pair, (*text, other), weight * (1.0 - accept) * probability)
        weight *= accept
    _complete(law, pair, kept, weight)


def _complete(law: Floats, pair: Pair, text: Text, weight: float) -> None:
    """Add what the target continues this text with."""
    if weight == 0.0:
        return
    if len(text) == law.ndim:
        law[text] += weight
        return
    for token, probability in enumerate(pair.target[text]):
        _complete(law, pair, (*text, token), weight * probability)
