"""`SecondOpinions`: whether a replica's refusal of a request is shown to the client as it is.

A 4xx may come from something that is no engine. Another replica is asked before the client gets
it, until the two have agreed several times.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass

NUM_TRUSTED = 3
"""A refusal that others agreed with this many times in a row is trusted. Chosen empirically."""
CHECK_EVERY = 4
"""Of the trusted refusals every fourth is checked still. Chosen empirically: a client that sends
only bad requests costs a quarter more, and a replica that begins to refuse good ones with the same
words refuses three."""
TRUSTED_S = 5.0
"""Trust lapses this long after the last agreement. Chosen empirically."""
_MAX_KEPT = 4096
"""Refusals of one replica to one tenant; the one used least recently is forgotten first."""
_OF_THE_REQUEST = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+")
"""Parts of a message that differ from request to request: quoted values and numbers."""


@dataclass(frozen=True, slots=True)
class RefusalKind:
    """What one replica says to one tenant."""

    replica: str
    tenant: str | None
    status: int
    text: str


def refusal_kind(replica: str, tenant: str | None, status: int, message: str) -> RefusalKind:
    """The kind of a refusal; messages that differ in quoted values and numbers are one kind.

    >>> refusal_kind("a", None, 400, "temperature is 7, not 'x'").text
    'temperature is …, not …'
    """
    return RefusalKind(replica, tenant, status, _OF_THE_REQUEST.sub("…", message))


@dataclass(slots=True)
class _Record:
    num_agreed: int = 0
    """In a row."""
    agreed_at_s: float = 0.0
    num_refusals: int = 0
    """Since it is trusted."""


class SecondOpinions:
    """What others thought of the refusals of each kind.

    For each tenant: one that sends bad requests only makes a replica trusted for itself, not for
    the others. For each message: a replica that is trusted to refuse one fault may be wrong about
    another. Trust ends with the first refusal that another replica did not share.

    >>> opinions = SecondOpinions()
    >>> kind = refusal_kind("a", None, 400, "max_tokens is 0")
    >>> for _ in range(3):
    ...     opinions.note(kind, 0.0, agrees=True)
    >>> [opinions.is_wanted(kind, 1.0) for _ in range(4)]
    [False, False, False, True]
    >>> opinions.is_wanted(refusal_kind("a", None, 400, "unknown field"), 1.0)
    True
    >>> opinions.is_wanted(kind, 6.0)
    True
    """

    def __init__(self) -> None:
        self._records: OrderedDict[RefusalKind, _Record] = OrderedDict()

    def is_wanted(self, kind: RefusalKind, now_s: float) -> bool:
        """Whether to ask another replica after this refusal. Counts it: call it once for each."""
        record = self._record(kind)
        if record.num_agreed < NUM_TRUSTED or now_s - record.agreed_at_s > TRUSTED_S:
            return True
        record.num_refusals += 1
        return record.num_refusals % CHECK_EVERY == 0

    def note(self, kind: RefusalKind, now_s: float, *, agrees: bool) -> None:
        """Another replica has answered a request that was refused so."""
        record = self._record(kind)
        if not agrees:
            self._records[kind] = _Record()
            return
        if now_s - record.agreed_at_s > TRUSTED_S:
            record.num_agreed = 0
        record.num_agreed += 1
        record.agreed_at_s = now_s

    def _record(self, kind: RefusalKind) -> _Record:
        record = self._records.get(kind)
        if record is None:
            record = self._records[kind] = _Record()
            if len(self._records) > _MAX_KEPT:
                self._records.popitem(last=False)
        else:
            self._records.move_to_end(kind)
        return record
