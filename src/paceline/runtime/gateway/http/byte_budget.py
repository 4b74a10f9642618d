"""`ByteBudget`: bound the memory of all requests and answers that one process holds.

A request reserves bytes before it is read, and whatever its answer needs as that arrives; a request
that finds no room is refused at once. Slots bound the number of requests, this bounds their size.

A process has a part of the gateway's budget, and a tenant a part of that. A request that needs more
than its whole part would never be served; the process holds one such request at a time beside its
part, as long as the limits on bodies and answers allow. So an idle process serves every request,
and all processes together hold at most the budget plus one request each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from paceline.runtime.gateway.http.errors import Problem, Refusal
from paceline.runtime.gateway.outcomes import Outcome

REQUEST_BYTES = 192 * 1024
"""Reserved for every request: its objects, and the buffers that a stream fills whose client reads
slowly (48 KiB to the client, 64 KiB from the replica, two parts of 16 KiB on the way). 183 KB in
the mean of 200 such streams."""


class ByteBudget:
    """The bytes reserved by all requests. `repr` shows them.

    State changes only in `_change`, between awaits.
    """

    def __init__(
        self,
        max_bytes: int,
        max_tenant_bytes: int | None = None,
        retry_after_s: int = 5,
        on_change: Callable[[int], None] = lambda by: None,
    ) -> None:
        """`max_tenant_bytes` bounds the requests of one tenant; None for no bound of its own.

        `on_change` is called with every change of the number of bytes; it must not raise.
        """
        self._on_change = on_change
        self._max_bytes = max_bytes
        self._max_tenant_bytes = max_tenant_bytes
        self._retry_after_s = retry_after_s
        self._by_tenant: Counter[str] = Counter()
        self._large: ReservedBytes | None = None
        """The request that is held beside the budget, since it needs more than it could get."""
        self._most_bytes = 0
        self.num_bytes = 0

    def request(self, tenant: str | None) -> ReservedBytes:
        """A reservation for one request, not begun; `tenant` is None without keys."""
        return ReservedBytes(self, tenant)

    def take_most_bytes(self) -> int:
        """The highest number of reserved bytes since the last call."""
        most_bytes, self._most_bytes = self._most_bytes, self.num_bytes
        return most_bytes

    def _change(self, reserved: ReservedBytes, by: int) -> None:
        if by > 0:
            self._admit(reserved, by)
        reserved.num_bytes += by
        self.num_bytes += by
        self._most_bytes = max(self._most_bytes, self.num_bytes)
        self._on_change(by)
        tenant = reserved.tenant
        if tenant is not None:
            self._by_tenant[tenant] += by
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]
        if self._large is reserved and by < 0:
            self._take_back(reserved)

    def _admit(self, reserved: ReservedBytes, by: int) -> None:
        """Raise `Refusal` unless these bytes have room."""
        if self._large is reserved:
            return
        if reserved.num_bytes + by > self._most_of(reserved):
            if self._large is not None:
                raise self._refusal(
                    503, "The gateway holds another request of this size", "buffers_full"
                )
            self._large = reserved
            return
        if self._num_counted() + by > self._max_bytes:
            raise self._refusal(
                503, "The gateway holds as much as it may of requests and answers", "buffers_full"
            )
        if not self._has_room_for_tenant(reserved, by):
            raise self._refusal(
                429,
                "Your requests and answers together are as long as one tenant's may be",
                "tenant_buffers_full",
            )

    def _take_back(self, large: ReservedBytes) -> None:
        """Count the large request with the others once it fits, to make its place free."""
        self._large = None
        if not (
            large.num_bytes <= self._most_of(large)
            and self._num_counted() <= self._max_bytes
            and self._has_room_for_tenant(large, 0)
        ):
            self._large = large

    def _most_of(self, reserved: ReservedBytes) -> int:
        """What one request can have beside nothing else."""
        if reserved.tenant is None or self._max_tenant_bytes is None:
            return self._max_bytes
        return min(self._max_bytes, self._max_tenant_bytes)

    def _num_counted(self) -> int:
        """Bytes of all requests but the large one."""
        return self.num_bytes - (0 if self._large is None else self._large.num_bytes)

    def _has_room_for_tenant(self, reserved: ReservedBytes, by: int) -> bool:
        tenant, large = reserved.tenant, self._large
        if tenant is None or self._max_tenant_bytes is None:
            return True
        num_bytes = self._by_tenant[tenant]
        if large is not None and large.tenant == tenant:
            num_bytes -= large.num_bytes
        return num_bytes + by <= self._max_tenant_bytes

    def _refusal(self, status: int, message: str, code: str) -> Refusal:
        return Refusal(
            Problem(
                status,
                f"{message} (server.max_buffered_bytes); send fewer or shorter requests at a time.",
                code,
                retry_after_s=self._retry_after_s,
                closes_connection=True,
            ),
            Outcome.OVERLOADED,
        )

    def __repr__(self) -> str:
        return f"ByteBudget({self.num_bytes} of {self._max_bytes})"


class ReservedBytes:
    """The bytes of one request: none until `begin`, and none after `release`.

    `begin`, `resize` and `grow` raise `Refusal` (503, 429) when there is no room; the number of
    bytes is unchanged then.
    """

    __slots__ = ("_budget", "num_bytes", "tenant")

    def __init__(self, budget: ByteBudget, tenant: str | None) -> None:
        self._budget = budget
        self.tenant = tenant
        self.num_bytes = 0

    def begin(self) -> None:
        """Reserve `REQUEST_BYTES`."""
        self.grow(REQUEST_BYTES)

    def drop_contents(self) -> None:
        """Release all but `REQUEST_BYTES`: body and answer are gone."""
        self.grow(min(0, REQUEST_BYTES - self.num_bytes))

    def release(self) -> None:
        """Release everything. May be repeated."""
        self.grow(-self.num_bytes)

    def grow(self, by: int) -> None:
        """Reserve more, or release some when negative."""
        self._budget._change(self, by)

    def resize(self, num_bytes: int) -> None:
        """Reserve this many instead, in addition to `REQUEST_BYTES`."""
        self.grow(REQUEST_BYTES + num_bytes - self.num_bytes)
