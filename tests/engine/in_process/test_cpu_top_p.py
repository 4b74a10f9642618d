"""The nucleus that is found among the likeliest tokens is the one that vLLM finds by sorting."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from paceline.runtime.engine.fixes.cpu_top_p import NUM_CANDIDATES, WRAPPERS

pytestmark = pytest.mark.engine

[RESTRICT] = WRAPPERS.methods.values()
VOCAB_SIZE = 2048
ROWS = 60


def stock(logits: Any, k: Any, p: Any, allow_cpu_sync: bool = False) -> Any:
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch

    function = getattr(apply_top_k_top_p_pytorch, "__wrapped__", apply_top_k_top_p_pytorch)
    return function(logits, k, p, allow_cpu_sync)


def never(*_: Any) -> Any:
    raise AssertionError("the vocabulary was sorted")


def distinct_logits(scale: float) -> Any:
    """No two of a row are equal, so that the nucleus is not arbitrary."""
    torch.manual_seed(0)
    return torch.randn(ROWS, VOCAB_SIZE, dtype=torch.float64).mul(scale).float()


@pytest.mark.parametrize("scale", [0.5, 3.0, 8.0])
@pytest.mark.parametrize("with_k", [False, True])
def test_the_nucleus_is_vllms(scale: float, with_k: bool) -> None:
    """Flat rows, whose nucleus is larger than the candidates, up to sharp ones; every row has its
    own p and k, some of them none."""
    p = torch.linspace(0.05, 1.0, ROWS)
    p[::7] = 1.0
    k = None
    if with_k:
        k = torch.randint(1, 2 * NUM_CANDIDATES, (ROWS,))
        k[::5], k[1::5] = VOCAB_SIZE, 1
    expected = stock(distinct_logits(scale), k, p, True)
    found = RESTRICT(stock, distinct_logits(scale), k, p, True)
    differs = found.isneginf() != expected.isneginf()
    # A token whose bound is p up to rounding may fall on either side.
    assert differs.sum() <= 2
    assert torch.equal(found[~differs], expected[~differs])


def test_a_sharp_row_and_one_without_top_p_are_not_sorted() -> None:
    logits = distinct_logits(8.0)
    p = torch.full((ROWS,), 0.9)
    p[3] = 1.0
    found = RESTRICT(never, logits.clone(), None, p)
    assert torch.equal(found[3], logits[3])
    assert 1 <= (~found[0].isneginf()).sum() < NUM_CANDIDATES


def test_one_token_is_left_where_p_is_least() -> None:
    logits = distinct_logits(3.0)
    found = RESTRICT(never, logits.clone(), None, torch.full((ROWS,), 1e-6))
    assert torch.equal(found.argmax(-1), logits.argmax(-1))
    assert (~found.isneginf()).sum(dim=-1).tolist() == [1] * ROWS


def test_tokens_as_likely_as_the_kth_stay() -> None:
    """Four equal ones at k = 2, and none that is less likely; where all are equal, vLLM decides."""
    logits = torch.full((2, VOCAB_SIZE), -5.0)
    logits[0, 10:14] = 1.0
    k, p = torch.tensor([2, 2]), torch.tensor([0.99, 0.99])
    expected = stock(logits.clone(), k, p, True)
    found = RESTRICT(stock, logits.clone(), k, p, True)
    assert torch.equal(found[0].isneginf(), expected[0].isneginf())
    assert (~found[0].isneginf()).sum() == 4
    assert torch.equal(found[1].isneginf(), expected[1].isneginf())


def test_no_rows_are_no_rows() -> None:
    """A step that verifies no draft restricts an empty batch."""
    empty = torch.empty(0, VOCAB_SIZE)
    assert RESTRICT(never, empty, None, torch.empty(0)).shape == (0, VOCAB_SIZE)
