"""A replica's metrics say whether it keeps to a request's limit on draft tokens."""

from __future__ import annotations

import doctest

import pytest

from paceline.gateway.fleet import draft_caps
from paceline.gateway.fleet.draft_caps import honours_draft_caps

_VLLM = 'vllm:num_requests_running{engine="0"} 3.0\n'
_DRAFTS = 'vllm:spec_decode_num_drafts_total{engine="0"} 7.0\n'
_REPORT = "# HELP paceline_engine_honours_draft_caps Whether.\n# TYPE x gauge\n"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (_VLLM, True),
        (_VLLM + _DRAFTS, False),
        (_VLLM + _DRAFTS + _REPORT + "paceline_engine_honours_draft_caps 1.0\n", True),
        (_REPORT + "paceline_engine_honours_draft_caps 1.0", True),
        (_VLLM + _DRAFTS + _REPORT + "paceline_engine_honours_draft_caps 0.0\n", False),
        ("", None),
        ("sglang:num_running_reqs 1.0\n", None),
    ],
)
def test_what_the_page_says(page: str, expected: bool | None) -> None:
    """vLLM without speculation has nothing to limit; other servers do not tell."""
    assert honours_draft_caps(page) is expected


def test_the_examples_run() -> None:
    assert doctest.testmod(draft_caps).failed == 0
