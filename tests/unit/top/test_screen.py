"""The live view as text."""

from __future__ import annotations

import doctest
import io
from dataclasses import replace

import pytest
from rich.console import Console

from paceline.operations.top import screen
from paceline.operations.top.history import Missed, Watched
from paceline.operations.top.screen import render, sparkline
from paceline.runtime.gateway.live_view.documents import render_history, render_update
from paceline.runtime.gateway.live_view.history import History
from paceline.runtime.gateway.live_view.values import Event
from unit.top.scripted_server import history, snapshot


def shown(made: History, *, width: int = 100, height: int | None = None) -> str:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(render(Watched(render_history(made)), width=width, height=height))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def line_with(text: str, made: History) -> str:
    return next(line for line in shown(made).splitlines() if text in line)


def test_the_figures_are_shown() -> None:
    made = history(snapshot(1), snapshot(4))
    assert "replicas 2 of 2 ready" in shown(made)
    assert "waiting 1" in shown(made)
    assert line_with("draft length", made).split()[2:] == ["4", "▃█"]
    assert line_with("acceptance", made).split()[1:] == ["0.75", "▆▆"]
    assert "1.5 s" in shown(made)  # p99 of the time to first token
    row = line_with("engine-1", made).split()
    assert row == ["engine-1", "ready", "closed", "4", "0.75", "120", "3", "-", "-"]


def test_a_screen_that_is_followed_says_how_it_ends() -> None:
    made = history(snapshot(1))
    assert "five minutes; Ctrl-C ends it" in shown(made, height=30)
    assert "Ctrl-C" not in shown(made)


def test_sparklines_scale_from_zero_and_show_gaps() -> None:
    assert sparkline([0, 1, 2, None, 4], 5) == "▁▃▅ █"
    assert sparkline([1, 3, 6, 10], 2) == "▃█"  # the means 2 and 8
    assert sparkline([9, 1, 3, None, 8], 2) == "▇█"  # the means 5 and 5.5
    assert sparkline([0.5], 3, top=1.0) == "  ▅"
    assert sparkline([0, 0], 2) == "▁▁"
    assert sparkline([], 4) == "    "


def test_the_examples_in_the_documentation_hold() -> None:
    result = doctest.testmod(screen)
    assert (result.failed, result.attempted) == (0, 1)


def test_the_newest_event_comes_first_and_markup_is_no_markup() -> None:
    made = history(
        snapshot(1),
        events=[Event(1.0, "state", "a", "old"), Event(2.0, "state", "[red]b", "new\x1b[31m\nx")],
    )
    text = shown(made)
    assert text.index("new") < text.index("old")
    assert "[red]b" in text
    assert "\x1b" not in text
    assert "new�[31m�x" in text


def test_a_name_with_control_characters_is_harmless() -> None:
    assert "\x1b" not in shown(history(snapshot(1, name="\x1b[2J")))


@pytest.mark.parametrize("height", [24, 40])
def test_fifty_replicas_fit_on_a_screen(height: int) -> None:
    events = [Event(1.0, "state", "a", "x") for _ in range(30)]
    text = shown(history(snapshot(1, num_replicas=50), events=events), height=height)
    assert len(text.splitlines()) <= height
    assert "more replicas" in text


def test_replicas_with_a_problem_are_not_left_out() -> None:
    many = snapshot(1, num_replicas=50)
    last = replace(many.replicas[-1], breaker="open")
    text = shown(history(replace(many, replicas=(*many.replicas[:-1], last))), height=24)
    assert "engine-49" in text
    assert "engine-20" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_no_line_is_longer_than_the_terminal(width: int) -> None:
    made = history(*(snapshot(n) for n in range(1, 9)), events=[Event(1.0, "x", "a", "y" * 500)])
    assert max(map(len, shown(made, width=width).splitlines())) <= width


def test_an_update_is_added_to_every_series() -> None:
    made = history(snapshot(1))
    watched = Watched(render_history(made))
    watched.update(render_update(made.add(snapshot(5), [Event(1.0, "state", "a", "x")])))
    assert watched.series("fleet", "draft_length") == [1, 5]
    assert watched.series("traffic", "num_waiting") == [1, 1]
    assert len(watched.events) == 1


def test_a_missing_update_is_noticed() -> None:
    made = history(snapshot(1))
    watched = Watched(render_history(made))
    made.add(snapshot(2), [])
    with pytest.raises(Missed):
        watched.update(render_update(made.add(snapshot(3), [])))


def test_what_is_kept_is_bounded() -> None:
    made = history(snapshot(1))
    watched = Watched(render_history(made))
    for number in range(400):
        watched.update(render_update(made.add(snapshot(number), [Event(1.0, "x", "a", "y")])))
    assert len(watched.series("fleet", "draft_length")) == 300
    assert len(watched.events) == 50
