"""Tokens that are drawn by one uniform number per row have the law of the probabilities."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from paceline.runtime.engine.fixes.cpu_draws import WRAPPERS, draw_by_cumulation

pytestmark = pytest.mark.engine

DRAFTS, RECOVERED, SAMPLED = WRAPPERS.methods.values()


def never(*_: Any) -> Any:
    raise AssertionError("the stock function was called")


def sampling(temperature: list[float], generators: dict[int, torch.Generator]) -> Any:
    """A batch with sampled requests."""
    return SimpleNamespace(
        all_greedy=False,
        all_random=min(temperature) > 0,
        temperature=torch.tensor(temperature),
        generators=generators,
    )


def test_an_index_is_the_first_whose_cumulated_weight_exceeds_the_number() -> None:
    """Weights 1, 0, 2, 1 of 4: bounds at 0.25, 0.25, 0.75 and 1; the second is never drawn."""
    weights = torch.tensor([[1.0, 0.0, 2.0, 1.0]]).expand(6, -1)
    uniform = torch.tensor([0.0, 0.24, 0.25, 0.74, 0.75, 1 - 2**-24])
    assert draw_by_cumulation(weights, uniform).tolist() == [0, 0, 2, 2, 3, 3]


@pytest.mark.parametrize("size", [127, 128, 129, 1000])
def test_tokens_are_found_among_and_inside_blocks(size: int) -> None:
    """Every fifth token has weight, and each is drawn by the numbers from the sum before it on."""
    weights = torch.zeros(1, size, dtype=torch.float64)
    weights[0, ::5] = 1.0
    number = len(range(0, size, 5))
    uniform = torch.arange(number, dtype=torch.float64) / number + 0.5 / number
    drawn = draw_by_cumulation(weights.expand(number, -1), uniform)
    assert drawn.tolist() == list(range(0, size, 5))


def test_all_tokens_are_drawn_as_often_as_they_weigh() -> None:
    """1,000 tokens, a third of them without weight; chi-square over 2 million draws."""
    torch.manual_seed(0)
    probs = torch.rand(1000) ** 4
    probs[100:433] = 0.0
    counts = torch.zeros(1000)
    for _ in range(500):
        drawn = draw_by_cumulation(probs.expand(4000, -1), torch.rand(4000))
        counts += drawn.bincount(minlength=1000)
    assert counts[100:433].sum() == 0
    expected = 2e6 * probs / probs.sum()
    has_weight = expected > 0
    chi_square = ((counts - expected)[has_weight] ** 2 / expected[has_weight]).sum().item()
    assert chi_square < 666 + 5 * (2 * 666) ** 0.5


@pytest.mark.parametrize("size", [3, 49_152])
def test_no_number_draws_a_token_without_weight(size: int) -> None:
    """The last token that has weight is drawn by the largest number, also where sums round."""
    weights = torch.full((1, size), 0.1)
    weights[0, -2:] = 0.0
    assert draw_by_cumulation(weights, torch.tensor([1 - 2**-24])).item() == size - 3
    weights[0, 0] = 0.0
    assert draw_by_cumulation(weights, torch.tensor([0.0])).item() == (1 if size > 3 else size - 1)


def test_the_largest_number_draws_no_token_beyond_the_last_with_weight() -> None:
    """Whatever the sum: its product with a number below 1 stays below it."""
    weights = torch.zeros(20_000, 2)
    weights[:, 0] = torch.rand(20_000).add_(1e-3).mul_(torch.rand(20_000).mul(8).exp())
    uniform = torch.full((20_000,), 1 - 2**-24)
    assert draw_by_cumulation(weights, uniform).max() == 0


def test_without_rows_nothing_is_drawn() -> None:
    """As in a step that verifies no draft."""
    assert draw_by_cumulation(torch.zeros(0, 300), torch.zeros(0)).tolist() == []


def test_a_row_without_weight_gives_an_index_of_the_vocabulary() -> None:
    assert draw_by_cumulation(torch.zeros(1, 4), torch.tensor([0.5])).item() == 3


@pytest.mark.parametrize("draft_prob", [1.0, float("nan")])
def test_a_token_that_the_target_rules_out_never_replaces_a_draft(draft_prob: float) -> None:
    """A grammar leaves the target one token. The draft's probabilities are as sure of it, or are no
    numbers: nothing is left of the target's after subtraction."""
    target = torch.zeros(1, 8)
    target[0, 2] = 1.0
    arguments = (
        1, [1], torch.tensor([1]), torch.tensor([5]), draft_prob * target, target,
        sampling([1.0], {}), None,
    )  # fmt: skip
    assert RECOVERED(never, *arguments).tolist() == [2]


def test_drafts_follow_their_temperature_and_greedy_rows_their_largest_logit() -> None:
    """Logits ln 3 and 0 at temperature 1: three quarters and a quarter; at 0.5: 9 and 1 in 10."""
    torch.manual_seed(0)
    rows = 30_000
    logits = torch.tensor([torch.tensor(3.0).log(), 0.0]).expand(3 * rows, -1).clone()
    temperature = [1.0] * rows + [0.5] * rows + [0.0] * rows
    token_ids, probs = DRAFTS(never, logits, sampling(temperature, {}))
    warm, cool, greedy = ((part == 0).float().mean().item() for part in token_ids.split(rows))
    assert warm == pytest.approx(0.75, abs=0.01)
    assert cool == pytest.approx(0.9, abs=0.01)
    assert greedy == 1.0
    assert probs.isfinite().all()
    assert probs[0].tolist() == pytest.approx([0.75, 0.25])
    assert probs[rows].tolist() == pytest.approx([0.9, 0.1])


def recovered(draft_probs: Any, target_probs: Any, drafts: list[int], counts: list[int],
              generators: dict[int, torch.Generator] | None = None) -> Any:  # fmt: skip
    return RECOVERED(
        never,
        max(counts),
        counts,
        torch.tensor(counts).cumsum(0),
        torch.tensor(drafts, dtype=torch.int32),
        draft_probs,
        target_probs,
        sampling([1.0] * len(counts), generators or {}),
        torch.device("cpu"),
    )


def test_a_rejected_draft_is_replaced_in_proportion_to_what_the_target_has_more() -> None:
    """Target 0.2, 0.5, 0.3 and draft 0.6, 0.3, 0.1 leave 0, 0.2, 0.2."""
    torch.manual_seed(0)
    rows = 20_000
    target = torch.tensor([0.2, 0.5, 0.3]).expand(rows, -1)
    draft = torch.tensor([0.6, 0.3, 0.1]).expand(rows, -1)
    counts = recovered(draft, target, [0] * rows, [1] * rows).bincount(minlength=3)
    assert counts[0] == 0
    assert counts[1] / rows == pytest.approx(0.5, abs=0.012)


def test_without_draft_probabilities_any_other_token_replaces_the_draft() -> None:
    """Target 0.2, 0.5, 0.3 without token 1: 0.4 and 0.6; without token 0: 0.625 and 0.375. A padded
    draft, -1, excludes none."""
    torch.manual_seed(0)
    rows = 20_000
    target = torch.tensor([0.2, 0.5, 0.3]).expand(3 * rows, -1)
    drawn = recovered(None, target, [1] * rows + [0] * rows + [-1] * rows, [1] * (3 * rows))
    of_1, of_0, of_padded = (part.bincount(minlength=3) / rows for part in drawn.split(rows))
    assert of_1.tolist() == pytest.approx([0.4, 0.0, 0.6], abs=0.012)
    assert of_0.tolist() == pytest.approx([0.0, 0.625, 0.375], abs=0.012)
    assert of_1[1] == of_0[0] == 0
    assert of_padded.tolist() == pytest.approx([0.2, 0.5, 0.3], abs=0.012)


def sampler() -> Any:
    return SimpleNamespace(use_fp64_gumbel=False, logprobs_mode="raw_logprobs")


def test_answers_have_the_law_of_their_logits_within_top_k() -> None:
    """Logits ln 3, ln 2 and 0: 1/2, 1/3 and 1/6; 3/5 and 2/5 with a top-k of 2."""
    torch.manual_seed(0)
    rows = 30_000
    logits = torch.tensor([3.0, 2.0, 1.0]).log().repeat(2 * rows, 1)
    top_k = torch.tensor([3] * rows + [2] * rows, dtype=torch.int32)
    token_ids, processed = SAMPLED(never, sampler(), logits, {}, top_k, None)
    assert processed is None
    free, two = (part.bincount(minlength=3) / rows for part in token_ids.split(rows))
    assert free.tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=0.012)
    assert two.tolist() == pytest.approx([0.6, 0.4, 0.0], abs=0.012)
    assert two[2] == 0


def test_an_answer_with_a_seed_does_not_depend_on_its_batch() -> None:
    logits = torch.randn(3, 1000, generator=torch.Generator().manual_seed(1))
    drawn = set()
    for rows in ([1], [0, 1], [2, 1, 0]):
        place = rows.index(1)
        generators = {place: torch.Generator().manual_seed(7)}
        token_ids, _ = SAMPLED(never, sampler(), logits[rows].clone(), generators, None, None)
        drawn.add(token_ids[place].item())
    assert len(drawn) == 1


def test_answers_stay_within_top_p() -> None:
    """Probabilities 0.5, 0.3 and 0.2: a top-p of 0.7 leaves the first two."""
    torch.manual_seed(0)
    rows = 20_000
    logits = torch.tensor([0.5, 0.3, 0.2]).log().repeat(rows, 1)
    token_ids, _ = SAMPLED(never, sampler(), logits, {}, None, torch.full((rows,), 0.7))
    found = token_ids.bincount(minlength=3) / rows
    assert found.tolist() == pytest.approx([0.625, 0.375, 0.0], abs=0.015)
    assert found[2] == 0


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_logit_that_is_no_number_gives_the_likeliest_token(
    wrong: float, caplog: pytest.LogCaptureFixture
) -> None:
    logits = torch.zeros(2, 1000)
    logits[0, 3] = wrong
    logits[1, 5] = 1000.0
    token_ids, _ = SAMPLED(never, sampler(), logits, {}, None, None)
    assert token_ids.tolist() == [3, 5]
    assert "logits with NaN or infinity" in caplog.text


@pytest.mark.parametrize(
    "changed", [{"use_fp64_gumbel": True}, {"logprobs_mode": "processed_logprobs"}]
)
def test_settings_that_want_more_than_tokens_get_vllms_own(changed: dict[str, Any]) -> None:
    asked = SimpleNamespace(**{**vars(sampler()), **changed})
    assert SAMPLED(lambda *_: "stock", asked, torch.zeros(1, 4), {}, None, None) == "stock"


def test_a_seed_decides_and_is_not_used_without_drafts() -> None:
    """Two requests with a seed, of which the second has no draft; the first has two."""
    target = torch.rand(2, 1000).softmax(-1)
    draft = torch.rand(2, 1000).softmax(-1)

    def draw() -> tuple[list[int], Any]:
        generators = {row: torch.Generator().manual_seed(7) for row in (0, 1)}
        found = recovered(draft, target, [3, 4], [2, 0], generators)
        return found.tolist(), generators[1].get_state()

    first, untouched = draw()
    torch.rand(5)  # the default generator does not matter
    assert draw()[0] == first
    assert torch.equal(untouched, torch.Generator().manual_seed(7).get_state())
