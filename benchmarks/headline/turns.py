"""The order of a run: the slices of a repeat, and the order of the arms in each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.headline.arms import Arm
from benchmarks.headline.cells import Cell

MAX_SERIAL_USERS = 16


@dataclass(frozen=True, slots=True)
class Slice:
    """One part of a cell in one repeat. Its arms all run it before the next slice begins."""

    repeat: int
    cell: Cell
    number: int
    """Of the slices of this cell over all repeats; it selects the requests."""
    order: tuple[Arm, ...]


def runs_cell(arm: Arm, cell: Cell) -> bool:
    """Whether the arm is measured in this cell.

    A server that answers one request at a time has no more throughput with 64 users than with 16,
    and would need minutes for one slice.
    """
    return not arm.is_serial or cell.users <= MAX_SERIAL_USERS


def plan_slices(
    arms: Sequence[Arm], cells: Sequence[Cell], repeat: int, num_slices: int, seed: int
) -> list[Slice]:
    """The slices of one repeat: the cells in shuffled order, each in `num_slices` parts.

    The order of the arms is drawn anew for every cell and reversed in every second part, so that a
    drift of the machine over the parts weighs on all arms alike.
    """
    draw = random.Random(f"{seed} {repeat}")
    found = []
    for cell in draw.sample(list(cells), len(cells)):
        order = order_of_arms([arm for arm in arms if runs_cell(arm, cell)], draw)
        found += [
            Slice(
                repeat,
                cell,
                repeat * num_slices + part,
                order if part % 2 == 0 else tuple(reversed(order)),
            )
            for part in range(num_slices)
        ]
    return found


def order_of_arms(arms: Sequence[Arm], draw: random.Random) -> tuple[Arm, ...]:
    """The arms in shuffled order, with the slow ones at one end.

    A serial server needs many times as long as the others. Between them it would separate turns
    that are to be compared.
    """
    slow = [arm for arm in arms if arm.is_serial]
    fast = [arm for arm in arms if not arm.is_serial]
    draw.shuffle(fast)
    return (*slow, *fast) if draw.random() < 0.5 else (*fast, *slow)
