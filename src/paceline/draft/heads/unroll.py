"""The recurrence of a head over the tokens of a draft, for drafts that begin at every position.

A draft that begins after the target has computed position n, and sampled token n + 1, proposes
token n + 1 + j in its pass j = 1, 2, …, from token n + j and the hidden state of its pass before;
in pass 1 that is the target's at n. Its keys up to n come from the target's hidden states, as every
step of an engine writes them anew. Run on a text, pass j is that of a served draft whose tokens
before were those of the text: accepted ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from paceline.draft.heads.head import Eagle3Head, KeysAndValues


def unroll(head: Eagle3Head, aux: Tensor, embedded: Tensor, num_passes: int) -> Iterator[Tensor]:
    """The hidden states of each pass, (num_texts, length - num_passes, hidden_size).

    `aux` are the target's hidden states of the texts, (num_texts, length, num_aux * hidden_size),
    and `embedded` their tokens, (num_texts, length, hidden_size). Row n of pass j (from 1) has
    the logits of token n + j + 1, by `Eagle3Head.logits`.
    """
    num_rows = embedded.shape[1] - num_passes
    hidden = head.combine(aux[:, :num_rows])
    past: list[KeysAndValues] = []
    for number in range(1, num_passes + 1):
        tokens = embedded[:, number : number + num_rows]
        hidden, made = head.advance(tokens, hidden, number - 1, past)
        past.append(made)
        yield hidden
