"""Which requests get no drafts, by their sampling parameters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from paceline.runtime.engine.fixes.undrafted_requests import forbids_drafts


@pytest.mark.parametrize(
    ("min_p", "logit_bias", "is_forbidden"),
    [
        (0.0, None, False),
        (0.0, {}, False),
        (1e-6, None, True),  # vLLM's validation ignores it, its sampler does not
        (0.1, None, True),
        (0.0, {5: 0.0}, True),
    ],
)
def test_a_request_with_min_p_or_a_bias_gets_no_drafts(
    min_p: float, logit_bias: dict[int, float] | None, is_forbidden: bool
) -> None:
    assert forbids_drafts(SimpleNamespace(min_p=min_p, logit_bias=logit_bias)) is is_forbidden


def test_a_pooling_request_has_no_parameters() -> None:
    assert not forbids_drafts(None)
