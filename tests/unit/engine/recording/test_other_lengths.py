"""Turns of other draft lengths: which, how long, how often."""

from __future__ import annotations

from itertools import groupby

from paceline.runtime.engine.recording.other_lengths import PERIOD, TURN, OtherLengths


def chosen(lengths: OtherLengths, policy: int, num_steps: int) -> list[int]:
    """The lengths of `num_steps`, where the policy wants the same one in all of them."""
    taken, latest = [], policy
    for _ in range(num_steps):
        other = lengths.next(latest)
        latest = policy if other is None else other
        taken.append(latest)
    return taken


def turns(taken: list[int], policy: int) -> list[tuple[int, int]]:
    runs = [(length, len(list(group))) for length, group in groupby(taken)]
    return [run for run in runs if run[0] != policy]


def test_the_other_lengths_take_turns_at_the_end_of_each_period() -> None:
    taken = chosen(OtherLengths(6), policy=4, num_steps=6 * PERIOD)
    assert turns(taken, 4) == [(length, TURN) for length in (0, 1, 2, 6, 0, 1)]
    assert set(taken[: PERIOD - TURN]) == {4}


def test_only_allowed_lengths_take_turns() -> None:
    taken = chosen(OtherLengths(8, (0, 3, 8)), policy=8, num_steps=3 * PERIOD)
    assert turns(taken, 8) == [(0, TURN), (3, TURN), (0, TURN)]


def test_an_engine_without_drafts_keeps_its_length() -> None:
    assert set(chosen(OtherLengths(0), policy=0, num_steps=2 * PERIOD)) == {0}
