"""Hand the arguments of `vllm serve` to vLLM's own parser, wherever the pages show them.

Pages show them as commands of their own, after `--` of `paceline serve`, in `engine.vllm_args` of
a paceline.yaml, as the server command of `paceline tune` and `paceline bench trace`, and in what
`paceline plan` prints. Importing vLLM takes seconds.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from documented_commands.pages import PROJECT, blocks_of, shown_on

_SERVER_COMMANDS = ("--server-command", "--serve")
_FIELDS = {
    "{port}": "8000",
    "{seqs}": "64",
    "{speculative_config}": '{"method": "ngram", "num_speculative_tokens": 4}',
}
"""Fields of server commands, which Paceline fills in."""


def shown_arguments(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Where arguments of `vllm serve` stand on the page, and the arguments."""
    name = page.relative_to(PROJECT).as_posix()
    for shown in shown_on(page):
        words = list(shown.command.words)
        place = f"{name}:{shown.line}"
        if shown.command.program == "vllm" and words[1] == "serve":
            yield place, words[2:]
        elif words[:2] == ["paceline", "serve"] and "--" in words:
            yield place, words[words.index("--") + 1 :]
        for option in _SERVER_COMMANDS:
            if option in words:
                command = [
                    _FIELDS.get(word, word) for word in shlex.split(words[words.index(option) + 1])
                ]
                yield place, command[2:]
    for block in blocks_of(page.read_text(encoding="utf-8")):
        place = f"{name}:{block.line}"
        if block.language == "yaml":
            yield from ((place, found) for found in _of_settings(block.text))
        elif block.language in ("", "console"):
            for line in re.findall(r"^ +vllm serve (.*)$", block.text, re.MULTILINE):
                yield place, shlex.split(line)


def _of_settings(text: str) -> Iterator[list[str]]:
    settings: Any = yaml.safe_load(text)
    engine = settings.get("engine") if isinstance(settings, dict) else None
    if isinstance(engine, dict) and "vllm_args" in engine:
        yield [str(word) for word in engine["vllm_args"]]


def find_problem(arguments: Sequence[str]) -> str | None:
    """Why vLLM's parser refuses the arguments of `vllm serve`; None if it accepts them."""
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed):
        try:
            _parser().parse_args(list(arguments))
        except SystemExit:
            return printed.getvalue()[-300:]
    return None


@cache
def _parser() -> Any:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    return make_arg_parser(FlexibleArgumentParser())
