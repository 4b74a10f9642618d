"""Verify the first draft token that a grammar forbids, so that it is rejected and not dropped.

vLLM's synchronous scheduler drops drafts from the first token that the grammar of their request
forbids (`Scheduler.update_draft_token_ids`). The token in its place is then drawn from the target's
distribution p. After a rejection it would be drawn from max(p - q, 0), with q the distribution that
the draft token was drawn from. So what the draft model prefers among the allowed tokens comes too
often (enumerated in tests/unit/governor/drafting/test_grammar_lossless.py).

Here the forbidden token is verified with the tokens before it. Under the grammar's mask its target
probability is 0, so the sampler rejects it. When vLLM computes the masks, the token is hidden as
-1, the padding of asynchronous scheduling, where vLLM is exact; as there, it counts as invalid in
the metrics and not as rejected.

Only for sampled requests, and for drafters that draw their tokens. Greedy drafts and n-grams are
functions of the text, and dropping them is exact.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from paceline.runtime.engine.scheduler.request_ledger import RequestLedger

_HIDDEN = -1


class ForbiddenDrafts:
    """The forbidden tokens that one scheduler verifies."""

    def __init__(self, ledger: RequestLedger, *, are_drawn: bool) -> None:
        """`are_drawn`: the drafter draws tokens for sampled requests. `ledger` says how many tokens
        of each request are to be verified."""
        self._ledger = ledger
        self._are_drawn = are_drawn
        self._num_allowed: dict[str, int] = {}
        """Draft tokens before the forbidden one, by request id."""

    def __contains__(self, request_id: str) -> bool:
        """Whether the last drafts of this request end with a forbidden token."""
        return request_id in self._num_allowed

    def keep(self, draft_token_ids: Any, requests: Mapping[str, Any]) -> None:
        """Put the forbidden tokens back that vLLM dropped.

        Call it after all drafts have been trimmed for other reasons, for every step that may have
        drafted.
        """
        if not self._are_drawn:
            return
        drafts = dict(zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=True))
        if self._num_allowed:
            self._num_allowed = {
                name: num
                for name, num in self._num_allowed.items()
                if name in requests and name not in drafts
            }
        bound = [name for name in drafts if _is_sampled_and_bound(requests.get(name))]
        if not bound:
            return
        for name, asked in zip(bound, self._ledger.asked(bound), strict=True):
            request, drafted = requests[name], drafts[name]
            num_allowed = len(request.spec_token_ids)
            if num_allowed < min(asked, len(drafted)):
                request.spec_token_ids = [*request.spec_token_ids, drafted[num_allowed]]
                self._num_allowed[name] = num_allowed

    def hide(self, output: Any) -> Any:
        """Return the step's output as vLLM's masks are to see it, and note in `output` which of its
        drafts are invalid."""
        scheduled = output.scheduled_spec_decode_tokens
        ends = {
            name: num
            for name, num in self._num_allowed.items()
            if len(scheduled.get(name, ())) > num
        }
        if not ends:
            return output
        output.num_invalid_spec_tokens = dict.fromkeys(ends, 1)
        seen = copy.copy(output)
        hidden = {name: [*scheduled[name][:num], _HIDDEN] for name, num in ends.items()}
        seen.scheduled_spec_decode_tokens = {**scheduled, **hidden}
        return seen


def _is_sampled_and_bound(request: Any) -> bool:
    return (
        request is not None
        and request.structured_output_request is not None
        and not request.is_prefill_chunk
        and request.sampling_params.temperature > 0
    )
