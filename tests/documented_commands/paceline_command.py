"""Hand the arguments of a shown `paceline` command to the command line of Paceline."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import io
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import click
import uvloop

from paceline.cli import main

_ENDS_AT_THE_NETWORK = frozenset({"audit", "bench", "capture", "doctor", "record", "top"})
"""Their own checks of values run before the first connection."""
_RUNS = frozenset({"deploy", "plan", "render"})
"""Run to the end: they read and write files and take less than a second."""
_DOES_NOT_FIT = "does not fit on"
"""`paceline plan` says so with exit code 1; pages show that too."""


class _Reached(BaseException):
    """The command is about to open a connection: all its arguments are accepted."""


def find_problem(arguments: Sequence[str], *, is_complete: bool = True) -> str | None:
    """Why the command line refuses these arguments; None if it accepts them.

    Every option must exist and every value must convert. Nothing runs. Files that an option wants
    to read need not exist. Without `is_complete`, as within a sentence, arguments may be missing.
    """
    words = [word.strip("[]") for word in arguments] if not is_complete else list(arguments)
    try:
        with _parsing_only(), contextlib.redirect_stdout(io.StringIO()):
            main.main(words, prog_name="paceline", standalone_mode=False)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError) as error:
        return error.format_message() if is_complete else None
    except click.BadOptionUsage as error:
        is_named_only = not is_complete and "requires an argument" in error.format_message()
        return None if is_named_only else error.format_message()
    except click.BadParameter as error:
        is_placeholder = any(
            f"'{word}'" in error.format_message() for word in words if word.isupper()
        )
        return error.format_message() if is_complete or not is_placeholder else None
    except click.ClickException as error:
        return error.format_message()
    return None


def find_problem_of_values(arguments: Sequence[str], folder: Path) -> str | None:
    """What the command itself says against the arguments, up to its first connection.

    `paceline serve` reads its settings and prints them. `plan`, `deploy` and `render` run. Files
    are read from and written to `folder`. Commands that compute before they connect are not run.
    """
    words = list(arguments)
    if words[0] == "serve":
        at = words.index("--") if "--" in words else len(words)
        words = [word for word in words[:at] if word != "--take-over"] + ["--print-config"]
        words += arguments[at:]
    elif words[0] not in _ENDS_AT_THE_NETWORK | _RUNS or _is_of_the_reader(words):
        return None
    printed = io.StringIO()
    with (
        contextlib.chdir(folder),
        _without_network(),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        try:
            main.main(words, prog_name="paceline", standalone_mode=False)
        except _Reached:
            return None
        except click.ClickException as error:
            return error.format_message()
        except SystemExit as end:
            text = printed.getvalue()[-400:]
            return (
                f"exit code {end.code}: {text}" if end.code and _DOES_NOT_FIT not in text else None
            )
    return None


def _is_of_the_reader(words: Sequence[str]) -> bool:
    """Whether the command reads a model or a recording that only the reader has."""
    return words[:2] == ["plan", "replay"] or any(word.startswith("./") for word in words)


@contextlib.contextmanager
def _parsing_only() -> Iterator[None]:
    convert = click.Path.convert

    def without_looking(self: click.Path, value: Any, *rest: Any) -> Any:
        with mock.patch.object(self, "exists", False):
            return convert(self, value, *rest)

    with (
        mock.patch.object(click.Command, "invoke", return_value=None),
        mock.patch.object(click.Path, "convert", without_looking),
    ):
        yield


@contextlib.contextmanager
def _without_network() -> Iterator[None]:
    def stop(*given: Any, **_: Any) -> Any:
        for one in given:
            if inspect.iscoroutine(one):
                one.close()
        raise _Reached

    with (
        mock.patch.object(asyncio, "run", stop),
        mock.patch.object(asyncio, "Runner", stop),
        mock.patch.object(uvloop, "run", stop),
        mock.patch.object(socket, "create_connection", stop),
    ):
        yield
