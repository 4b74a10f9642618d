"""The server's own count of draft tokens is read from its metrics."""

from __future__ import annotations

import pytest

from paceline.workbench.audit.server.counters import read_num_drafted

_NAME = "vllm:spec_decode_num_draft_tokens"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (f'# TYPE {_NAME}_total counter\n{_NAME}_total{{engine="0"}} 12.0\n', 12.0),
        (f'{_NAME}_total{{engine="0"}} 12.0\n{_NAME}_total{{engine="1"}} 3.0 17\n', 15.0),
        (f"{_NAME}_total 4\n", 4.0),
        (f'{_NAME}_created{{engine="0"}} 1.7e9\n', None),
        (f"{_NAME}_total many\n", None),
        (f'{_NAME}_total{{engine="0"}} NaN\n', None),
        (f'{_NAME}_total{{engine="0"}} 12.0\n{_NAME}_total{{engine="1"}} +Inf\n', None),
        ("", None),
        ("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3.0\n", 0.0),
        ("sglang:num_running_reqs 3.0\n", None),
    ],
)
def test_draft_tokens_of_all_engines_are_added_and_vllm_without_speculation_has_none(
    page: str, expected: float | None
) -> None:
    assert read_num_drafted(page) == expected
