"""A changed command is on trial until the engine is ready with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.process.changeable_command import ChangeableCommand


def command(name: str) -> EngineCommand:
    return EngineCommand((name,), {}, Path("/e.sock"), None)


OLD, NEW, NEWER = command("old"), command("new"), command("newer")


@pytest.fixture
def commands() -> ChangeableCommand:
    """Of an engine that serves."""
    serving = ChangeableCommand(OLD)
    assert serving.start() is OLD
    serving.became_ready()
    return serving


def test_without_a_change_every_start_has_the_same_command(commands: ChangeableCommand) -> None:
    commands.failed("it crashed")
    assert (commands.start(), commands.failure) == (OLD, None)


def test_a_change_takes_effect_at_the_next_start(commands: ChangeableCommand) -> None:
    commands.change(NEW)
    assert (commands.current, commands.at_next_start) == (OLD, NEW)
    assert commands.is_change_pending
    assert commands.start() is NEW
    assert (commands.current, commands.is_change_pending) == (NEW, False)


def test_a_change_that_does_not_become_ready_is_given_up(commands: ChangeableCommand) -> None:
    commands.change(NEW)
    commands.start()
    commands.failed("no memory")
    assert (commands.at_next_start, commands.failure) == (OLD, "no memory")
    assert commands.is_change_pending
    assert commands.start() is OLD


def test_a_change_that_has_been_ready_stays_after_a_crash(commands: ChangeableCommand) -> None:
    commands.change(NEW)
    commands.start()
    commands.became_ready()
    commands.failed("it did not start again")
    assert (commands.start(), commands.failure) == (NEW, None)


def test_an_engine_that_is_starting_keeps_its_change_on_trial(commands: ChangeableCommand) -> None:
    """It becomes ready with the command before; the change is for the start after that."""
    commands.start()
    commands.change(NEW)
    commands.became_ready()
    assert commands.start() is NEW
    commands.failed("no memory")
    assert commands.start() is OLD


def test_a_failure_before_the_changed_start_does_not_give_the_change_up(
    commands: ChangeableCommand,
) -> None:
    commands.change(NEW)
    commands.failed("it crashed before")
    assert (commands.start(), commands.failure) == (NEW, None)


def test_undone_before_the_start_nothing_is_pending(commands: ChangeableCommand) -> None:
    commands.change(NEW)
    commands.undo()
    assert (commands.at_next_start, commands.is_change_pending) == (OLD, False)


def test_undone_later_the_command_before_is_next(commands: ChangeableCommand) -> None:
    commands.change(NEW)
    commands.start()
    commands.became_ready()
    commands.undo()
    assert (commands.current, commands.at_next_start) == (NEW, OLD)
    commands.undo()  # a second time changes nothing
    assert commands.at_next_start is OLD


def test_a_second_change_falls_back_to_the_first(commands: ChangeableCommand) -> None:
    commands.change(NEW)
    commands.start()
    commands.became_ready()
    commands.change(NEWER)
    commands.start()
    commands.failed("no memory")
    assert commands.start() is NEW


def test_an_adopted_engine_falls_back_to_the_command_of_this_process() -> None:
    """The sockets of its own command are in the folder of the process that started it."""
    commands = ChangeableCommand(OLD, following=NEW)
    commands.change(NEWER)
    commands.start()
    commands.failed("no memory")
    assert commands.start() is NEW
