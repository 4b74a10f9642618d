"""The recurrence of a head over the tokens of a draft, for drafts that begin at many positions.

A draft that begins after the target has computed position n, and sampled token n + 1, proposes
token n + 1 + j in its pass j = 1, 2, …, from token n + j and the hidden state of its pass before;
in pass 1 that is the target's at n. Its keys up to n come from the target's hidden states, as every
step of an engine writes them anew. Run on a text, pass j is that of a served draft whose tokens
before were those of the text: accepted ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.foundation.models.heads.head import Eagle3Head, KeysAndValues


class Drafts:
    """Drafts in some texts, pass by pass. Those that need no further pass can be left out."""

    def __init__(self, head: Eagle3Head, aux: Tensor, embedded: Tensor, num_passes: int) -> None:
        """`aux` are the target's hidden states, (num_texts, length, num_aux * hidden_size), and
        `embedded` the tokens, (num_texts, length, hidden_size). A draft begins at each row that has
        tokens for `num_passes` passes."""
        num_texts, length, _ = embedded.shape
        num_rows = length - num_passes
        self.rows = torch.arange(num_rows, device=embedded.device).expand(num_texts, -1)
        """Where each draft begins, (num_texts, num_drafts). Rows of a text with fewer drafts
        than another are filled up with dropped drafts."""
        self._head, self._embedded = head, embedded
        self._num_before = 0
        self._hidden = head.combine(aux[:, :num_rows])
        self._remembered = head.remember(embedded[:, 1 : num_rows + 1], self._hidden)
        self._own: list[KeysAndValues] = []

    def advance(self) -> Tensor:
        """The hidden states of the next pass, (num_texts, num_drafts, hidden_size). That of a draft
        has the logits of token row + pass + 1, by `Eagle3Head.logits`."""
        tokens = _at(self._embedded, self.rows + self._num_before + 1)
        self._hidden, made = self._head.advance(
            tokens, self._hidden, self.rows, self._num_before, self._remembered, self._own
        )
        self._own.append(made)
        self._num_before += 1
        return self._hidden

    def keep(self, wanted: Tensor) -> Tensor:
        """Continue with these drafts, (num_texts, num_drafts) booleans; returns which of the new
        ones these are, since other texts may have more."""
        most = int(wanted.sum(dim=1).max())
        order = wanted.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        self.rows = self.rows.gather(1, order)
        self._hidden = _at(self._hidden, order)
        self._own = [
            (_of_heads(keys, order), _of_heads(values, order)) for keys, values in self._own
        ]
        return wanted.gather(1, order)


def _at(values: Tensor, rows: Tensor) -> Tensor:
    """Rows (num_texts, num_drafts) of values (num_texts, length, size)."""
    return values.gather(1, rows.unsqueeze(-1).expand(-1, -1, values.shape[-1]))


def _of_heads(values: Tensor, order: Tensor) -> Tensor:
    """Rows of keys or values, (num_texts, num_heads, num_drafts, head_dim)."""
    _, num_heads, _, head_dim = values.shape
    return values.gather(2, order[:, None, :, None].expand(-1, num_heads, -1, head_dim))
