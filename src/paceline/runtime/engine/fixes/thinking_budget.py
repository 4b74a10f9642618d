"""Apply a thinking budget under speculation as vLLM applies it without.

`thinking_token_budget` limits the tokens of a thinking section: when they are used up, vLLM forces
the tokens that end it. Its holder of the state (`ThinkingBudgetStateHolder`, vLLM 0.32.0) forces
wrong tokens in three cases, the first two in an engine that is configured to speculate:

- In a step without drafts that the plain sampler samples (`worker.plain_sampling`), it advances by
  the number of drafts per request, which is 0, and writes every forced token into row 0: the wrong
  request ends its thinking.
- In steps with drafts, it decides once per step where the end begins. Sections that begin or end
  within the drafts, a second section after a forced end, and ends of several tokens come out
  differently from an engine without speculation.
- When a request with a budget ends and a request without one moves to its row, the budget stays.

`LosslessThinkingBudget` uses vLLM's own state machine, as it runs without speculation, and feeds it
one token at a time. The committed tokens advance the state of a request; the drafts advance a copy
of it, which gives the forced token at each drafted position and at the one after. Each position
therefore gets what an engine without speculation gives it after the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers

_NUM_SEEN = "paceline_num_seen"
"""The key in vLLM's state of a request that holds how many output tokens the state includes."""
_FORCED_LOGIT = 1e9
"""vLLM's own value for a forced token."""


class LosslessThinkingBudget:
    """The thinking budgets of a batch, with the methods that vLLM calls on its own holder."""

    def __init__(self, holder: Any) -> None:
        """`holder`: vLLM's, created for an engine without speculation."""
        self._holder = holder
        self._forced: dict[int, list[int | None]] = {}
        """By row: the forced token at each draft's position and at the one after; None for none."""

    def has_tracked_requests(self) -> bool:
        """Return whether any request of the batch has a budget."""
        return bool(self._holder.has_tracked_requests())

    def sync_batch(self, batch_update: Any) -> None:
        """Follow the requests that joined, left or changed rows.

        A row that another request moves to is not among the removed ones, so it is emptied here.
        """
        if not batch_update:
            return
        self._holder.sync_batch(replace(batch_update, moved=()))
        states = self._holder._state
        for source, destination, direction in batch_update.moved:
            moved, replaced = states.pop(source, None), states.pop(destination, None)
            if moved is not None:
                states[destination] = moved
            if replaced is not None and direction.name == "SWAP":
                states[source] = replaced

    def update_state(
        self,
        output_token_ids: Sequence[list[int]],
        spec_token_ids: Sequence[list[int]] | None,
        repeat_indices: Any = None,
    ) -> None:
        """Advance each state by its new output tokens; find the forced tokens of this step.

        Both lists have one entry per row. Call it once per step, before `apply_to_logits`.
        """
        drafts_by_row = spec_token_ids or ()
        self._forced = {}
        for row, state in self._holder._state.items():
            if row >= len(output_token_ids):
                continue
            output = output_token_ids[row]
            self._commit(state, output)
            trial = dict(state)  # vLLM replaces the values and mutates none
            forced = [self._forced_token(trial)]
            for num_drafts in range(1, 1 + _length_at(drafts_by_row, row)):
                self._advance(trial, output + drafts_by_row[row][:num_drafts])
                forced.append(self._forced_token(trial))
            self._forced[row] = forced

    def apply_to_logits(
        self,
        logits: Any,
        predict_bonus_token: bool,
        spec_token_ids: Sequence[list[int]] | None,
    ) -> Any:
        """Force tokens in `logits`, in place, and return it.

        Shape (num_requests, vocabulary) with `predict_bonus_token` and in steps without drafts;
        otherwise (num_draft_tokens, vocabulary), the drafts of each request in a row.
        """
        lengths = [len(drafts) for drafts in spec_token_ids or ()]
        has_row_per_request = predict_bonus_token or not any(lengths)
        if logits.shape[0] == 0:
            return logits
        starts = [0]
        for length in lengths:
            starts.append(starts[-1] + length)
        rows, tokens = [], []
        for row, forced in self._forced.items():
            if has_row_per_request:
                places = {row: forced[-1]}
            else:
                places = {starts[row] + i: token for i, token in enumerate(forced[:-1])}
            for place, token in places.items():
                if token is not None:
                    rows.append(place)
                    tokens.append(token)
        if rows:
            logits[rows, tokens] = _FORCED_LOGIT
        return logits

    def _commit(self, state: dict[str, Any], output: list[int]) -> None:
        """Advance a state by the output tokens that it does not include yet, one at a time.

        A request that joins with output, after a preemption, is advanced once, as by vLLM.
        """
        num_seen = state.get(_NUM_SEEN)
        if num_seen is not None:
            for length in range(num_seen + 1, len(output)):
                self._advance(state, output[:length])
        self._advance(state, output)
        state[_NUM_SEEN] = len(output)

    def _advance(self, state: dict[str, Any], output: list[int]) -> None:
        """Do with a state what vLLM does in one step without speculation."""
        state["output_tok_ids"] = output
        state["spec_token_ids"] = []
        state["force_index"] = []
        self._holder._update_think_state(state)

    def _forced_token(self, state: dict[str, Any]) -> int | None:
        end: list[int] = self._holder.think_end_token_ids
        if state["in_end"] and state["force_index"] and state["end_count"] < len(end):
            return end[int(state["end_count"])]
        return None


def _length_at(drafts_by_row: Sequence[list[int]], row: int) -> int:
    return len(drafts_by_row[row]) if row < len(drafts_by_row) else 0


def _create(
    stock: Any,
    reasoning_config: Any,
    max_num_seqs: int,
    num_spec_tokens: int,
    *others: Any,
    **named: Any,
) -> Any:
    holder = stock(reasoning_config, max_num_seqs, 0, *others, **named)
    return None if holder is None else LosslessThinkingBudget(holder)


WRAPPERS = Wrappers(
    "thinking_budget",
    {"vllm.v1.worker.gpu_input_batch:maybe_create_thinking_budget_state_holder": _create},
    name="the thinking budget fix",
    otherwise="Do not use thinking_token_budget together with speculation.",
)
