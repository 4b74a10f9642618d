"""Acceptance of single requests and of all of them together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.foundation.load.records import DraftCounts
from paceline.workbench.bench.results.request_acceptance import Spread, summarize_acceptance
from paceline.workbench.bench.results.summary import summarize
from unit.bench.results.records import record


def test_long_and_short_answers_count_alike_by_request_and_by_tokens_together() -> None:
    """Rates 0.9 of 100 tokens, 0.1 of 10 and none: 91 of 110 together, 0.5 on average."""
    counts = [DraftCounts(100, 90, 25), DraftCounts(10, 1, 5), DraftCounts(0, 0, 0)]
    found = summarize_acceptance([replace(record(n), drafts=c) for n, c in enumerate(counts)])
    assert found is not None
    assert (found.num_requests, found.drafted_tokens, found.accepted_tokens) == (3, 110, 91)
    assert found.acceptance_rate == pytest.approx(91 / 110)
    assert found.acceptance_length == pytest.approx(1 + 91 / 30)
    assert found.rate_by_request == Spread(
        pytest.approx(0.5), pytest.approx(0.18), pytest.approx(0.5), pytest.approx(0.82)
    )


def test_the_length_is_unknown_if_an_answer_lacks_its_drafts() -> None:
    """As of llama.cpp's server."""
    counts = [DraftCounts(100, 90, 25), DraftCounts(10, 1)]
    found = summarize_acceptance([replace(record(n), drafts=c) for n, c in enumerate(counts)])
    assert found is not None
    assert (found.num_drafts, found.acceptance_length) == (None, None)


def test_failed_requests_and_answers_without_counts_do_not_count() -> None:
    failed = replace(record(0, error="x"), drafts=DraftCounts(9, 9, 3))
    assert summarize_acceptance([failed, record(1)]) is None
    assert summarize([failed, record(1)]).acceptance is None


def test_each_task_has_its_own_acceptance() -> None:
    records = [
        replace(record(0, task="copy"), drafts=DraftCounts(10, 9, 5)),
        replace(record(1, task="poem"), drafts=DraftCounts(10, 2, 5)),
    ]
    by_task = summarize(records).by_task
    rates = {name: t.acceptance.acceptance_rate for name, t in by_task.items() if t.acceptance}
    assert rates == {"copy": 0.9, "poem": 0.2}
