"""Commands and options that a message names exist, and its own command has them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from paceline.cli import main
from paceline.workbench.plan.command_group import ModelOrSubcommand

PACKAGE = Path(__file__).parents[2] / "src" / "paceline"
_COMMAND = re.compile(r"(?<![\w/.-])paceline(?= [a-z])")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_CLAUSE = re.compile(r"[;()`\"'\n]|\\. |, | -- |paceline")
"""Ends what belongs to a named command. Options after `--` are vLLM's."""
_PROSE = frozenset({"hand-over", "import", "of", "or", "reads", "shifting"})
"""What follows the name in texts that name no command."""
_OTHER_PROGRAMS = frozenset({
    "--a", "--a-b", "--additional-config", "--count", "--data-parallel-backend",
    "--data-parallel-size", "--kv-cache-dtype",
    "--device-ids", "--disable-log-stats", "--enable-log-outputs", "--enable-log-requests",
    "--distributed-executor-backend", "--enforce-eager",
    "--force-reinstall", "--from-file", "--from-literal", "--gpu-memory-utilization", "--gpus",
    "--headless", "--hf-overrides", "--ipc",
    "--limit-s", "--master-addr", "--master-port", "--max-num-batched-tokens",
    "--max-num-seqs", "--name", "--ngram", "--nnodes", "--no-async-scheduling", "--no-deps",
    "--no-enable-chunked-prefill", "--node-rank", "--noise", "--pipeline-parallel-size",
    "--porcelain", "--port", "--prefill-chunk", "--profile", "--quantization", "--run-folder",
    "--scheduler-cls", "--seqs", "--served-model-name", "--shifting-trace", "--shm-size",
    "--shutdown-timeout", "--slow-factor", "--slow-for-s", "--slow-from-s",
    "--speculative-config", "--structured-outputs-config", "--tensor-parallel-size",
    "--tool-call-parser", "--trust-remote-code", "--ulimit", "--watch",
})  # fmt: skip
"""Options of vLLM, pip, kubectl, git, containers, and of modules that are run with `python -m`."""
_FOR_OTHER_PROGRAMS = frozenset(
    {"deploy/other_servers.py", "deploy/progress_probe.py", "doctor/checks/log/start_patterns.py"}
)
"""Texts about trtllm-serve, the options of the probe itself, and remedies for vllm serve."""
_ROOMS = {
    "audit": ("audit",),
    "bench/compare": ("bench compare",),
    "bench/export": ("bench export",),
    "bench/quick": ("bench quick",),
    "bench/report": ("bench report",),
    "bench/run": ("bench run",),
    "bench/trace": ("bench trace",),
    "cost": ("cost",),
    "deploy": ("deploy",),
    "doctor": ("doctor",),
    "draft": ("draft",),
    "gateway": ("serve", "keys", "draft swap"),
    "plan": ("plan",),
    "quality": ("quality",),
    "quantize": ("quantize",),
    "serve": ("serve",),
    "top": ("top",),
    "tune": ("tune",),
    "validate": ("validate",),
}
"""Whose messages the folders hold."""


@cache
def find(path: str) -> click.Command:
    """The command at these words; "" is `paceline` itself."""
    found: click.Command = main
    for word in path.split():
        assert isinstance(found, click.Group)
        child = found.get_command(click.Context(found), word)
        assert child is not None, path
        found = child
    return found


def children(path: str) -> list[str]:
    command = find(path)
    return command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []


@cache
def options_of(path: str) -> frozenset[str]:
    """All names of the options of a command and of those below it."""
    command = find(path)
    if isinstance(command, ModelOrSubcommand):
        own = [*command.params, *command._model_command.params]
    else:
        own = command.params
    names = {name for one in own for name in (*one.opts, *one.secondary_opts)}
    below = (options_of(f"{path} {child}".strip()) for child in children(path))
    return frozenset(names).union({"--help"}, *below)


def problems_of_commands(text: str) -> Iterator[str]:
    """The commands that a text names and Paceline does not have, and options they do not have."""
    for name in _COMMAND.finditer(text):
        clause = _CLAUSE.split(text[name.end() :], maxsplit=1)[0]
        path = ""
        for word in clause.split():
            if word not in children(path):
                break
            path = f"{path} {word}".strip()
        if not path:
            if clause.split()[0] not in _PROSE:
                yield f"no command: paceline{clause}"
            continue
        for option in _OPTION.findall(clause):
            if option not in options_of(path):
                yield f"paceline {path} has no {option}"


def texts_of(file: Path) -> Iterator[tuple[int, str]]:
    """The texts of a module that may be shown, with `{}` for what is filled in."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    parts = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
        for part in node.values
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "{}"
                    for part in node.values
                ),
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        ):
            yield node.lineno, node.value


def problems_of_options(room: str, text: str) -> Iterator[str]:
    """Options in a text of the room that its commands, and those the text names, do not have."""
    commands = next(
        (commands for name, commands in _ROOMS.items() if room.startswith(f"{name}/")), ("",)
    )
    allowed = _OTHER_PROGRAMS.union(*map(options_of, commands))
    for name in _COMMAND.finditer(text):
        first = text[name.end() :].split()[0].strip("`;:.,()")
        if first in children(""):
            allowed |= options_of(first)
    for option in _OPTION.findall(text):
        if option not in allowed:
            yield f"{' and '.join(commands) or 'paceline'} has no {option}"


def test_named_commands_and_options_exist() -> None:
    problems = []
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).as_posix().partition("/")[2]  # without the floor
        if room in _FOR_OTHER_PROGRAMS:
            continue
        for line, text in texts_of(file):
            if ">>>" not in text and ((" " in text and "--" in text) or "paceline" in text):
                found = (*problems_of_commands(text), *problems_of_options(room, text))
                problems += [f"{room}:{line}: {problem}" for problem in found]
    assert problems == []


@pytest.mark.parametrize(
    ("room", "text", "problem"),
    [
        ("top/x.py", "paceline serv starts one", "no command: paceline serv starts one"),
        ("top/x.py", "try paceline doctor --url X", "paceline doctor has no --url"),
        ("doctor/x.py", "give --url", "doctor has no --url"),
        ("doctor/x.py", "paceline bench trace --url X measures it; give --probe", None),
        ("engine/x.py", "`paceline serve bundled -- --max-num-seqs 4`", None),
        ("deploy/x.py", "paceline or vllm", None),
    ],
)
def test_a_wrong_hint_is_found(room: str, text: str, problem: str | None) -> None:
    found = [*problems_of_commands(text), *problems_of_options(room, text)]
    assert (found[0] if found else None) == problem
