"""Records with round times, for tests of figures."""

from __future__ import annotations

from paceline.foundation.load.records import RequestOutcome, RequestRecord


def record(
    index: int = 0,
    scheduled_s: float = 0.0,
    sent_s: float | None = None,
    chunk_times_s: tuple[float, ...] = (0.5, 1.0, 1.5),
    finished_s: float = 1.5,
    output_tokens: int | None = 5,
    error: str | None = None,
    task: str = "json",
    phase: int = 0,
    repeat: int = 0,
    slot_wait_s: float = 0.0,
) -> RequestRecord:
    return RequestRecord(
        index=index,
        task=task,
        scheduled_s=scheduled_s,
        sent_s=scheduled_s if sent_s is None else sent_s,
        chunk_times_s=chunk_times_s,
        finished_s=finished_s,
        outcome=RequestOutcome.OK if error is None else RequestOutcome.HTTP_ERROR,
        prompt_tokens=10,
        output_tokens=output_tokens,
        error=error,
        phase=phase,
        repeat=repeat,
        slot_wait_s=slot_wait_s,
    )


def steady(
    count: int,
    period_s: float = 1.0,
    ttft_s: float = 0.25,
    e2e_s: float = 0.75,
    output_tokens: int = 6,
    repeat: int = 0,
) -> list[RequestRecord]:
    """One request per period; first content after `ttft_s`, the rest at the end."""
    return [
        record(
            index=index,
            scheduled_s=index * period_s,
            chunk_times_s=(index * period_s + ttft_s, index * period_s + e2e_s),
            finished_s=index * period_s + e2e_s,
            output_tokens=output_tokens,
            repeat=repeat,
        )
        for index in range(count)
    ]
