"""`SecondOpinions`: whether a replica's refusal of a request is shown to the client as it is.

A 4xx may come from something that is no engine. Another replica is asked before the client gets
it, until the two have agreed several times.
"""

from __future__ import annotations

from collections import OrderedDict

NUM_TRUSTED = 3
"""A replica that others agreed with this many times in a row is trusted. Chosen empirically."""
CHECK_EVERY = 10
"""Of the refusals of a trusted replica, every tenth is checked still. Chosen empirically: a client
that sends only bad requests then costs a tenth more."""
_MAX_KEPT = 4096
"""Pairs of replica and tenant; the one used least recently is forgotten first."""


class SecondOpinions:
    """What others thought of the refusals of each replica, for each tenant.

    For each tenant: one that sends bad requests only makes a replica trusted for itself, not for
    the others. A decision on counts, without clock: trust ends with the first refusal that another
    replica did not share.

    >>> opinions = SecondOpinions()
    >>> for _ in range(3):
    ...     opinions.note("a", None, agrees=True)
    >>> [opinions.is_wanted("a", None) for _ in range(10)].count(True)
    1
    >>> opinions.is_wanted("a", "another tenant")
    True
    """

    def __init__(self) -> None:
        self._agreed: OrderedDict[tuple[str, str | None], list[int]] = OrderedDict()
        """Agreements in a row, and refusals since the replica is trusted."""

    def is_wanted(self, replica: str, tenant: str | None) -> bool:
        """Whether to ask another replica after this refusal. Counts it: call it once for each."""
        counts = self._counts(replica, tenant)
        if counts[0] < NUM_TRUSTED:
            return True
        counts[1] += 1
        return counts[1] % CHECK_EVERY == 0

    def note(self, replica: str, tenant: str | None, *, agrees: bool) -> None:
        """Another replica has answered a request that this one refused."""
        counts = self._counts(replica, tenant)
        if agrees:
            counts[0] += 1
        else:
            counts[:] = [0, 0]

    def _counts(self, replica: str, tenant: str | None) -> list[int]:
        key = (replica, tenant)
        counts = self._agreed.get(key)
        if counts is None:
            counts = self._agreed[key] = [0, 0]
            if len(self._agreed) > _MAX_KEPT:
                self._agreed.popitem(last=False)
        else:
            self._agreed.move_to_end(key)
        return counts
