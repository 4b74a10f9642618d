"""Hand the arguments of a shown `python` command to the parser of the script or module."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

OTHER_MODULES = frozenset({"json.tool", "llama_cpp.server", "pytest", "venv"})
"""Modules of others, whose arguments are not checked."""


class _Parsed(BaseException):
    """The parser has accepted the arguments."""


def find_problem(words: Sequence[str], root: Path) -> str | None:
    """Why the script refuses its arguments; None if its parser accepts them.

    The script runs up to the end of `ArgumentParser.parse_args`. One that has no parser must exist
    and take no more than plain arguments.

    Args:
        words: After `python`: a file, or `-m` and a module, and the arguments.
        root: Where the files are.
    """
    if words[0] == "-m":
        name, arguments = words[1], list(words[2:])
        if name in OTHER_MODULES:
            return None
        spec = _find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            name = f"{name}.__main__"
            spec = _find_spec(name)
        if spec is None or spec.origin is None:
            return f"there is no module {name}"
        file = Path(spec.origin)
    else:
        name, file, arguments = "", root / words[0], list(words[1:])
        if not file.is_file():
            return f"there is no file {words[0]}"
    if not _has_parser(file):
        options = [word for word in arguments if word.startswith("-")]
        return f"{file.name} has no parser, so no option {options[0]}" if options else None
    return _parse(name, file, arguments)


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def _has_parser(file: Path) -> bool:
    """Here or in the module of the same package that it calls `main` of."""
    text = file.read_text(encoding="utf-8")
    return "parse_args(" in text or "import main" in text


def _parse(name: str, file: Path, arguments: list[str]) -> str | None:
    original = argparse.ArgumentParser.parse_args

    def parse(self: argparse.ArgumentParser, *given: Any, **named: Any) -> NoReturn:
        original(self, *given, **named)
        raise _Parsed

    printed = io.StringIO()
    path = list(sys.path)
    with (
        mock.patch.object(argparse.ArgumentParser, "parse_args", parse),
        mock.patch.object(sys, "argv", [str(file), *arguments]),
        contextlib.redirect_stderr(printed),
        contextlib.redirect_stdout(printed),
    ):
        try:
            if name:
                runpy.run_module(name, run_name="__main__", alter_sys=False)
            else:
                runpy.run_path(str(file), run_name="__main__")
        except _Parsed:
            return None
        except SystemExit as end:
            return f"exit code {end.code}: {printed.getvalue()[-300:]}" if end.code else None
        finally:
            sys.path[:] = path
    return f"{file.name} ended without having parsed its arguments"
