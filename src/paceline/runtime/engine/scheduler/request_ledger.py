"""What is known of each request of one scheduler between its steps.

A request brings its cap and its class. Its last step asked it for a number of draft tokens: those
of the plan, limited by its cap, and by its width where the policy chose one after the step had
drafted (`reported_drafts`). With one batch at a time that is the step before. With several batches
in flight (pipeline parallelism), and for a request that had to wait, it is an older one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import repeat
from typing import Any


class RequestLedger:
    """The requests of one scheduler, kept in its thread.

    All of a step's requests are read or written by calls that loop in C; in Python only those that
    set a cap or have a width.
    """

    def __init__(self) -> None:
        self._caps: dict[str, int] = {}
        self._classes: dict[str, str] = {}
        self._asked: dict[str, int] = {}
        self._kept: tuple[dict[str, Any], ...] = (self._caps, self._classes, self._asked)

    def add(self, request_id: str, class_name: str, cap: int | None) -> None:
        """A request arrives; `cap` limits its drafts, None does not."""
        self.forget([request_id])
        self._classes[request_id] = class_name
        self.limit(request_id, cap)

    def limit(self, request_id: str, cap: int | None) -> None:
        """Also `cap` limits the drafts of this request."""
        if cap is not None:
            self._caps[request_id] = min(cap, self._caps.get(request_id, cap))

    def forget(self, request_ids: Iterable[str]) -> None:
        """A step ended these requests."""
        for request_id in request_ids:
            for kept in self._kept:
                kept.pop(request_id, None)

    def forget_aborted(self, requests: Mapping[str, Any]) -> None:
        """Forget all that are not in `requests`, which have ended without a step."""
        if len(self._classes) > len(requests):
            self.forget(self._classes.keys() - requests.keys())

    def classes_of(self, request_ids: Iterable[str]) -> tuple[str, ...]:
        """The class of each of these requests; empty where that of one is unknown."""
        try:
            return tuple(map(self._classes.__getitem__, request_ids))
        except KeyError:
            return ()

    def count_classes(self, request_ids: Collection[str]) -> dict[str, int]:
        """The number of these requests by class; empty where the class of one is unknown."""
        found = self.classes_of(request_ids)
        return {name: found.count(name) for name in set(found)}

    def capped(self, request_ids: Collection[str]) -> dict[str, int]:
        """The caps of those of the requests that have one. Not in the order of `request_ids`."""
        caps = self._caps
        if not caps:
            return {}
        return {request_id: caps[request_id] for request_id in caps.keys() & request_ids}

    def ask(self, request_ids: Collection[str], length: int) -> None:
        """A step drafted `length` tokens for each of these requests, or fewer where a cap says."""
        asked = self._asked
        if length:
            asked.update(dict.fromkeys(request_ids, length))
            for request_id, cap in self.capped(request_ids).items():
                asked[request_id] = min(cap, length)
        elif asked:
            for request_id in asked.keys() & request_ids:
                del asked[request_id]

    @property
    def has_asked(self) -> bool:
        """Whether any request was asked for drafts."""
        return bool(self._asked)

    def narrow(self, widths: Mapping[str, int]) -> None:
        """Of the drafts of these requests, at most as many tokens are verified as given."""
        for request_id, width in widths.items():
            self._asked[request_id] = min(width, self._asked.get(request_id, 0))

    def asked(self, request_ids: Iterable[str]) -> tuple[int, ...]:
        """Tokens that each of these requests was last asked for; 0 for one that joins."""
        return tuple(map(self._asked.get, request_ids, repeat(0)))
