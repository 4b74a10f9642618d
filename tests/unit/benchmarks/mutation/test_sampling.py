"""A sample of mutants is always the same, and its estimate contains the truth."""

from __future__ import annotations

import random

import pytest

from benchmarks.mutation.mutants import Mutant
from benchmarks.mutation.sampling import draw, killed_share

_MUTANTS = [Mutant("AddNot", line, "", f"source {line}") for line in range(100)]


def test_sample_is_the_same_whatever_the_order() -> None:
    drawn = draw(_MUTANTS, 10)
    assert len(drawn) == 10
    assert {mutant.line for mutant in draw(_MUTANTS[::-1], 10)} == {mutant.line for mutant in drawn}
    assert [mutant.line for mutant in drawn] == sorted(mutant.line for mutant in drawn)
    assert max(mutant.line for mutant in drawn) - min(mutant.line for mutant in drawn) > 20


def test_few_mutants_are_all_drawn() -> None:
    assert draw(_MUTANTS[:3], 10) == _MUTANTS[:3]


def test_share_of_complete_modules_is_exact() -> None:
    share = killed_share([(10, 10, 9), (30, 30, 30), (0, 0, 0)])
    assert (share.estimate, share.low, share.high) == (0.975, 0.975, 0.975)
    assert share.describe() == "97.5%"


def test_modules_count_by_their_size() -> None:
    share = killed_share([(300, 10, 10), (100, 10, 5)])
    assert share.estimate == pytest.approx(0.875)
    assert share.low < 0.8 < 0.95 < share.high


def test_without_mutants_nothing_survives() -> None:
    assert killed_share([]).estimate == 1.0


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    chance = random.Random(1)
    modules = [[chance.random() < kill for _ in range(num)] for num, kill in _ROOMS]
    truth = sum(map(sum, modules)) / sum(map(len, modules))
    covered = 0
    for _ in range(500):
        tested = [chance.sample(module, min(40, len(module))) for module in modules]
        share = killed_share(
            (len(module), len(some), sum(some))
            for module, some in zip(modules, tested, strict=True)
        )
        covered += share.low <= truth <= share.high
    assert covered >= 460


_ROOMS = [(400, 0.9), (150, 0.97), (60, 0.6), (30, 1.0), (220, 0.85)]
"""Mutants of each module, and the chance that one is killed."""
