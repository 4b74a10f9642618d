"""The order of a run: the slices of a repeat, and the order of the arms in each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.headline.arms import Arm
from benchmarks.headline.cells import Cell, Text

MAX_SERIAL_USERS = 16


@dataclass(frozen=True, slots=True)
class Slice:
    """A cell in one repeat. Its arms all run it before the next slice begins."""

    repeat: int
    cell: Cell
    order: tuple[Arm, ...]


def runs_cell(arm: Arm, cell: Cell) -> bool:
    """Whether the arm is measured in this cell.

    A server that answers one request at a time needs a minute for 16 users, and its rate hardly
    depends on the text or on the number of users: it runs the chats of up to 16 users only.
    """
    is_short = cell.text in (Text.CHAT, Text.SYSTEM_CACHED) and cell.users <= MAX_SERIAL_USERS
    return not arm.is_serial or is_short


def plan_slices(arms: Sequence[Arm], cells: Sequence[Cell], repeat: int, seed: int) -> list[Slice]:
    """The slices of one repeat: the cells in shuffled order, and in each the arms, too."""
    draw = random.Random(f"{seed} {repeat}")
    return [
        Slice(repeat, cell, order_of_arms([arm for arm in arms if runs_cell(arm, cell)], draw))
        for cell in draw.sample(list(cells), len(cells))
    ]


def order_of_arms(arms: Sequence[Arm], draw: random.Random) -> tuple[Arm, ...]:
    """The arms in shuffled order, with the slow ones at one end.

    A serial server needs many times as long as the others. Between them it would separate turns
    that are to be compared.
    """
    slow = [arm for arm in arms if arm.is_serial]
    fast = [arm for arm in arms if not arm.is_serial]
    draw.shuffle(fast)
    return (*slow, *fast) if draw.random() < 0.5 else (*fast, *slow)
