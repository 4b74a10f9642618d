"""Acceptance of classes, and of batches that mix them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paceline.runtime.governor.acceptance.acceptance_by_class import AcceptanceByClass
from paceline.runtime.governor.acceptance.per_class import ClassRows
from paceline.runtime.governor.contract.samples import ordinary_sample
from paceline.runtime.governor.values import StepSample

PRIOR = 0.588
"""Survival of the first token: 0.98 offered, 0.6 accepted."""


def verdicts(
    classes: tuple[str, ...], accepted: tuple[int, ...], length: int = 1, **changes: Any
) -> StepSample:
    """One draft of `length` tokens for each request."""
    count = len(accepted)
    fields: dict[str, Any] = {
        "num_requests": count,
        "requested_draft_length": length,
        "drafted": (length,) * count,
        "accepted": accepted,
        "verified_draft_tokens": count * length,
        "classes": classes,
    }
    return ordinary_sample(**(fields | changes))


def first(acceptance: AcceptanceByClass, **classes: int) -> float:
    """Survival of the first token in a batch."""
    return acceptance.survival(classes)[0]


def test_a_class_says_nothing_about_another() -> None:
    acceptance = AcceptanceByClass(2)
    for _ in range(50):
        acceptance.observe(verdicts(("greedy", "sampled"), (1, 0)))
    assert first(acceptance, greedy=1) > 0.85
    assert first(acceptance, sampled=1) < 0.15
    assert first(acceptance, other=1) == pytest.approx(PRIOR)


def test_a_batch_has_the_mean_of_its_requests() -> None:
    """Three of one class, one of the other."""
    acceptance = AcceptanceByClass(2)
    acceptance.observe(verdicts(("greedy", "sampled"), (1, 0)))
    greedy, sampled = first(acceptance, greedy=1), first(acceptance, sampled=1)
    assert first(acceptance, greedy=3, sampled=1) == pytest.approx((3 * greedy + sampled) / 4)
    offers = [acceptance.offered({name: 1})[1] for name in ("greedy", "sampled")]
    mixed = acceptance.offered({"greedy": 1, "sampled": 1})[1]
    assert mixed == pytest.approx(sum(offers) / 2)


def test_the_64th_class_is_the_last_of_its_own() -> None:
    """The 65th and the 66th share what they learn; the 64th does not."""
    acceptance = AcceptanceByClass(1)
    for number in range(1, 66):
        acceptance.observe(verdicts((f"class {number}",), (1,)))
    before = first(acceptance, **{"class 64": 1})
    for _ in range(50):
        acceptance.observe(verdicts(("class 66",), (0,)))
    assert first(acceptance, **{"class 65": 1}) == first(acceptance, **{"class 66": 1}) < 0.15
    assert first(acceptance, **{"class 64": 1}) == before > PRIOR


def test_samples_and_loads_without_classes_share_one() -> None:
    acceptance = AcceptanceByClass(1)
    for _ in range(50):
        acceptance.observe(verdicts((), (1, 1)))
    assert acceptance.survival({})[0] > 0.85
    assert first(acceptance, greedy=1) == pytest.approx(PRIOR)


@pytest.mark.parametrize("classes", [(), ("greedy", "greedy")])
def test_the_lengths_requested_of_single_requests_count(classes: tuple[str, ...]) -> None:
    """The second was asked for one token only: it says nothing about offers of the second."""
    sample = verdicts(classes, (2, 1), 2, drafted=(2, 1), requested=(2, 1))
    acceptance = AcceptanceByClass(2)
    acceptance.observe(sample)
    offered = acceptance.offered(dict.fromkeys(classes, 1))
    assert offered[1] / offered[0] == pytest.approx((1.96 + 1) / 3)


def test_steps_without_verdicts_teach_nothing() -> None:
    acceptance = AcceptanceByClass(1)
    acceptance.observe(verdicts((), ()))
    assert acceptance.survival({})[0] == pytest.approx(PRIOR)


SURVIVAL = np.array([[0.9, 0.45], [0.2, 0.1], [0.5, 0.25]])


def test_dropped_tokens_are_learned_by_class() -> None:
    """Two greedy drafts, of which the second token of the last one is dropped: reached with 0.5,
    accepted with 0.25, (4 * 0.6 + 0.25) / 4.5 = 0.5889. The sampled draft is dropped whole: reached
    with 1 and 0.2, accepted with 0.2 and 0.1, so (2.4 + 0.2) / 5 = 0.52 and (4 * 0.52 + 0.1) / 4.2
    = 0.5190. All with the prior offer of 0.98."""
    acceptance = AcceptanceByClass(2)
    acceptance.learn_dropped(
        ClassRows(["greedy", "sampled", "greedy"]), SURVIVAL, np.array([2, 0, 1])
    )
    assert acceptance.survival({"greedy": 1}) == pytest.approx(
        [0.98 * 0.6, 0.98**2 * 0.6 * 0.588889]
    )
    assert acceptance.survival({"sampled": 1}) == pytest.approx(
        [0.98 * 0.52, 0.98**2 * 0.52 * 0.519048]
    )


def test_where_nothing_is_dropped_nothing_is_learned() -> None:
    """Neither is anything forgotten."""
    acceptance = AcceptanceByClass(2)
    acceptance.observe(verdicts(("greedy",), (2,), 2))
    before = [*acceptance.survival({"greedy": 1})]
    acceptance.learn_dropped(ClassRows(["greedy"] * 3), SURVIVAL, np.array([2, 2, 2]))
    assert acceptance.survival({"greedy": 1}) == before
