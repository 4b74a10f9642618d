"""Checks of shown `make` and `curl` commands, and of paths in the repository."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from documented_commands.shell import ShellCommand
from paceline.runtime.gateway.admin import admin_app
from paceline.runtime.gateway.admin.governor_change_check import check_governor_change
from paceline.runtime.gateway.http.errors import Refusal

_ENVIRONMENT_OF_MAKE = frozenset({"REPOSITORY_URL"})
"""Read by the programs that `make` starts."""
_UNDER_MOCK_VLLM = "/mock_vllm/"
_MADE_FOLDERS = frozenset({"build", "dist", "runs"})
"""By `make` and by the commands of the docs; git ignores them."""


def find_problem_of_make(words: Sequence[str], root: Path) -> str | None:
    """A target or a variable that the Makefile does not have."""
    text = (root / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name, is_variable, _ = word.partition("=")
        if is_variable:
            if name not in _ENVIRONMENT_OF_MAKE and not re.search(rf"\$\({name}\b", text):
                return f"the Makefile does not use {name}"
        elif not re.search(rf"^{re.escape(name)}:(?!=)", text, re.MULTILINE):
            return f"the Makefile has no target {name}"
    return None


def find_problem_of_curl(words: Sequence[str], root: Path) -> str | None:
    """A body that is no JSON, or a path or method that no server of Paceline has."""
    method, body, url = None, None, None
    options = iter(words)
    for word in options:
        if word in ("-d", "--data"):
            body = next(options)
        elif word in ("-H", "--header", "-o"):
            next(options)
        elif word.startswith("-") and word.endswith("X"):
            method = next(options)
        elif not word.startswith("-"):
            url = word
    if url is None:
        return "no URL"
    try:
        content = None if body is None else json.loads(body)
    except ValueError as error:
        return f"the body is not JSON: {error}"
    path = urlsplit(url if "://" in url else f"http://{url}").path
    chosen = method or ("GET" if body is None else "POST")
    methods = _methods(root).get(path)
    if methods is None and not path.startswith(_UNDER_MOCK_VLLM):
        return f"no route {path}"
    if methods is not None and chosen not in methods:
        return f"{path} has no method {chosen}"
    if path == "/admin/governor" and content is not None:
        try:
            check_governor_change(content)
        except Refusal as error:
            return str(error)
    return None


@functools.cache
def _methods(root: Path) -> Mapping[str, set[str]]:
    """The methods of each route of both ports."""
    description = yaml.safe_load((root / "docs" / "openapi.yaml").read_text(encoding="utf-8"))
    routes = {
        path: {method.upper() for method in methods}
        for path, methods in description["paths"].items()
    }
    for path, methods in admin_app._METHODS.items():
        routes[path] = {*routes.get(path, set()), *methods}
    return routes


def find_missing_paths(command: ShellCommand, root: Path) -> Iterator[str]:
    """Files and folders of the repository that the command names and that do not exist.

    Hidden folders and those of `_MADE_FOLDERS` are made by commands and are not part of it.
    """
    folders = (entry.name for entry in root.iterdir() if entry.is_dir())
    top = {name for name in folders if name not in _MADE_FOLDERS and name[0] != "."}
    words = [*command.words, *(word.partition("=")[2] for word in command.environment)]
    if command.output is not None:
        words.append(command.output)
    for word in words:
        path = word.split("::", 1)[0]
        if path.split("/", 1)[0] in top and "/" in path and not (root / path).exists():
            yield path
