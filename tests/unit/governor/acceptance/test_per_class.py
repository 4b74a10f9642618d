"""One estimate for each class, in bounded number."""

from __future__ import annotations

from paceline.runtime.governor.acceptance.per_class import ANY_CLASS, PerClass


def test_a_class_has_one_estimate_of_its_own() -> None:
    estimates = PerClass[list[str]](list)
    estimates["greedy"].append("a verdict")
    assert estimates["greedy"] == ["a verdict"]
    assert estimates["sampled"] == []
    assert [*estimates] == ["greedy", "sampled"]


def test_from_the_65th_class_on_all_share_the_estimate_of_those_without_a_class() -> None:
    """So there are 65 estimates at most, also if that of requests without a class comes last."""
    estimates = PerClass[list[int]](list)
    for number in range(1000):
        estimates[f"class {number}"].append(number)
    assert len(estimates) == 65
    assert estimates["class 63"] == [63]
    assert estimates["class 64"] is estimates["class 999"] is estimates[ANY_CLASS]
    assert estimates[ANY_CLASS] == [*range(64, 1000)]
