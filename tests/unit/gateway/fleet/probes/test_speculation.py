"""A replica's metrics say whether it drafts, and whether it keeps to limits on draft tokens."""

from __future__ import annotations

import doctest

import pytest

from paceline.runtime.gateway.fleet import speculation
from paceline.runtime.gateway.fleet.metrics_page import MetricsPage
from paceline.runtime.gateway.fleet.speculation import Speculation, read_speculation

_VLLM = 'vllm:num_requests_running{engine="0"} 3.0\n'
_DRAFTS = 'vllm:spec_decode_num_drafts_total{engine="0"} 7.0\n'
_REPORT = "# HELP paceline_engine_honours_draft_caps Whether.\n# TYPE x gauge\n"


@pytest.mark.parametrize(
    ("page", "drafts", "honours_caps"),
    [
        (_VLLM, False, True),
        (_VLLM + _DRAFTS, True, False),
        (_VLLM + _DRAFTS + _REPORT + "paceline_engine_honours_draft_caps 1.0\n", True, True),
        (_REPORT + "paceline_engine_honours_draft_caps 1.0", None, True),
        (_VLLM + _DRAFTS + _REPORT + "paceline_engine_honours_draft_caps 0.0\n", True, False),
        ("", None, None),
        ("sglang:num_running_reqs 1.0\n", None, None),
    ],
)
def test_what_the_page_says(page: str, drafts: bool | None, honours_caps: bool | None) -> None:
    """vLLM without speculation has nothing to limit; other servers do not say."""
    assert read_speculation(MetricsPage(page)) == Speculation(drafts, honours_caps)


def test_a_server_that_drafts_under_paceline_is_known() -> None:
    assert Speculation(drafts=True, honours_draft_caps=True).is_governed
    assert not Speculation(drafts=False, honours_draft_caps=True).is_governed
    assert not Speculation(drafts=True, honours_draft_caps=False).is_governed


def test_the_examples_run() -> None:
    assert doctest.testmod(speculation).failed == 0
