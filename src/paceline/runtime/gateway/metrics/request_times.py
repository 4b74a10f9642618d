"""`RequestTimes`: the times of one request, for the metrics."""

from __future__ import annotations

import time

from paceline.runtime.gateway.metrics.metrics import GatewayMetrics


class RequestTimes:
    """Records the times of one request. Create it when the request's body has been read."""

    def __init__(self, metrics: GatewayMetrics) -> None:
        self._metrics = metrics
        self._num_choices = 1
        self._read_at_s = time.monotonic()
        self._first_at_s: float | None = None

    def sent_upstream(self, num_choices: int) -> None:
        """The request is sent to a replica."""
        self._num_choices = num_choices
        self._metrics.queued_for(time.monotonic() - self._read_at_s)

    def first_bytes(self) -> None:
        """The first token has come. Calls of attempts that continue the stream do nothing."""
        if self._first_at_s is not None:
            return
        self._first_at_s = time.monotonic()
        self._metrics.first_token_after(self._first_at_s - self._read_at_s)

    def stream_completed(self, num_output_tokens: int | None) -> None:
        """A stream is complete; None if its number of output tokens is unknown."""
        if self._first_at_s is None or self._num_choices != 1:
            return
        if num_output_tokens is not None and num_output_tokens > 1:
            duration_s = time.monotonic() - self._first_at_s
            self._metrics.output_token_took(duration_s / (num_output_tokens - 1))
