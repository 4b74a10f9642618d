"""Texts and divergences with known figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paceline.foundation.answer_quality.divergence import Divergence
from paceline.foundation.answer_quality.values import Text, TextKind


def make_texts(num: int, kind: TextKind = TextKind.SAMPLED, num_tokens: int = 4) -> list[Text]:
    """One text per conversation."""
    return [
        Text(f"{kind} {n}", f"conversation {n}", kind, (1, 2), tuple(range(num_tokens)))
        for n in range(num)
    ]


def make_divergence(
    texts: list[Text],
    kl_nats: Callable[[int], float],
    loss_nats: float | Sequence[float] = 0.0,
) -> dict[str, Divergence]:
    """The divergence of each text is `kl_nats` of its number, at every token.

    `loss_nats` is that of every text, or one for each.
    """
    losses = np.broadcast_to(np.asarray(loss_nats, dtype=np.float64), (len(texts),))
    return {
        text.key: Divergence(
            kl_nats=np.full(len(text.token_ids), kl_nats(number)),
            loss_nats=np.full(len(text.token_ids), losses[number]),
            agrees=np.ones(len(text.token_ids)),
        )
        for number, text in enumerate(texts)
    }
