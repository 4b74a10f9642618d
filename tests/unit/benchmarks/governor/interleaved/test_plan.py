"""Arms and phases by name; turns depend on the repeat alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.governor.interleaved.arms import parse_arm, parse_arms
from benchmarks.governor.interleaved.phases import (
    SETS,
    order_of_arms,
    parse_phase,
    plan_repeat,
)


def test_an_arm_carries_parameters_checkouts_and_a_label(tmp_path: Path) -> None:
    (tmp_path / "old" / "src" / "paceline").mkdir(parents=True)
    (tmp_path / "package").mkdir()
    spec = f"goodput:alarm=false,name=x@{tmp_path / 'old'}@{tmp_path / 'package'}#2"
    arm = parse_arm(spec, max_draft_length=8)
    assert arm.name == "goodput:alarm=False,name=x@old@package#2"
    assert arm.settings == {
        "policy": "goodput",
        "policy_parameters": {"alarm": False, "name": "x"},
    }
    assert arm.python_path(Path("own")) == [
        str(tmp_path / "old" / "src"),
        str(tmp_path / "package"),
        "own",
    ]


def test_fixed_lengths_and_no_speculation_need_no_parameters() -> None:
    assert parse_arm("none#again", max_draft_length=8).settings is None
    assert parse_arm("K=0", max_draft_length=8).settings == {"policy": "fixed", "draft_length": 0}


def test_the_commas_of_a_list_separate_no_parameters() -> None:
    """vLLM's length table is a parameter of `schedule`."""
    arm = parse_arm("schedule:schedule=[[1,4,6],[5,64,2]],x=a", max_draft_length=8)
    assert arm.parameters == (("schedule", [[1, 4, 6], [5, 64, 2]]), ("x", "a"))


@pytest.mark.parametrize(
    "spec",
    ["", "K=9", "K=x", "none:a=1", "goodput:a", "goodput:a=1,b", "goodput@/nowhere"],
)
def test_a_wrong_arm_is_refused_by_name(spec: str) -> None:
    with pytest.raises(ValueError, match="the arm"):
        parse_arm(spec, max_draft_length=8)


def test_equal_arms_need_a_label() -> None:
    with pytest.raises(ValueError, match="none#again"):
        parse_arms(["none", "none"], max_draft_length=8)


def test_every_phase_of_every_set_has_a_valid_name() -> None:
    for names in SETS.values():
        for name in names:
            assert parse_phase(name).name == name


@pytest.mark.parametrize("name", ["", "16", "0-code", "16-prose", "16-code-short"])
def test_a_wrong_phase_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match="the phase is"):
        parse_phase(name)


def test_turns_are_equal_for_equal_repeats_and_shuffled_between_them() -> None:
    turns = [
        plan_repeat(SETS["trace"], repeat, (60, 150), is_shuffled=True) for repeat in (0, 0, 1)
    ]
    assert turns[0] == turns[1]
    assert [turn.phase for turn in turns[0]] != [turn.phase for turn in turns[2]]
    assert {turn.phase.name for turn in turns[2]} == set(SETS["trace"])
    assert all(60 <= turn.steps <= 150 for turn in turns[0])


def test_the_order_of_the_arms_changes_from_turn_to_turn() -> None:
    orders = [tuple(order_of_arms("abcd", 0, place)) for place in range(20)]
    assert len(set(orders)) > 5
    assert {first for first, *_ in orders} == set("abcd")
