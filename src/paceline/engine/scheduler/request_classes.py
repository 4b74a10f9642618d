"""The class of each request: how it samples, and whether anything binds its answer.

    greedy, sampled, greedy bound, sampled bound

How often drafts are accepted, and how far the draft model's confidence can be trusted, differs
between these (`governor.acceptance`). An answer is bound where the target's probabilities are
changed in ways that the draft model does not know: by a grammar (structured output, also that of
tools), by penalties, biases or masks. Its verdicts then teach the policy about its own class, and
nothing about requests whose drafts come from the same distribution as the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

_BOUND = " bound"
UNREADABLE = "sampled bound"
"""The class of a request whose parameters could not be read."""
_MIN_KEPT = 4096
"""Classes that are kept before those of ended requests are dropped."""


class RequestClasses:
    """The classes of one scheduler's requests."""

    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}
        self._most_kept = _MIN_KEPT

    def set(self, request_id: str, name: str) -> None:
        """Note the class of a request that arrives."""
        self._by_id[request_id] = name

    def of(self, request_ids: Iterable[str]) -> tuple[str, ...]:
        """The class of each of these requests; empty where that of one is unknown."""
        found = tuple(map(self._by_id.get, request_ids))
        return () if None in found else found  # type: ignore[return-value]

    def count(self, request_ids: Collection[str]) -> dict[str, int]:
        """The number of these requests by class; empty where the class of one is unknown."""
        counts = Counter(map(self._by_id.get, request_ids))
        return {} if None in counts else dict(counts)  # type: ignore[arg-type]

    def forget_ended(self, requests: Mapping[str, Any]) -> None:
        """Drop the classes of requests that are not in `requests`, once there are many."""
        by_id = self._by_id
        if len(by_id) > self._most_kept:
            for request_id in by_id.keys() - requests.keys():
                del by_id[request_id]
            self._most_kept = max(_MIN_KEPT, 2 * len(by_id))


def class_of(sampling_params: Any) -> str:
    """Return the class of a request with these parameters of vLLM."""
    if sampling_params is None:
        return "greedy"  # a pooling request, which produces no tokens
    name = "sampled" if sampling_params.temperature > 0 else "greedy"
    is_bound = (
        sampling_params.structured_outputs is not None
        or sampling_params.repetition_penalty != 1
        or sampling_params.presence_penalty
        or sampling_params.frequency_penalty
        or sampling_params.logit_bias
        or sampling_params.allowed_token_ids
        or sampling_params.bad_words
        or sampling_params.min_tokens
    )
    return name + _BOUND if is_bound else name
