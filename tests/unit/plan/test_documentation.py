"""The worked example of docs/plan.md is what the command prints."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from unit.plan.planning import plan_json, run_plan

PAGE = (Path(__file__).parents[3] / "docs" / "plan.md").read_text()


def test_the_worked_example_is_what_the_command_prints() -> None:
    example = PAGE.partition("## A worked example")[2].partition("\n## ")[0]
    command, output = re.findall(r"```\n(.*?)```", example, re.DOTALL)
    words = shlex.split(command.replace("\\\n", " "))
    assert words[:2] == ["paceline", "plan"]
    printed = run_plan(*words[2:])
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.splitlines() == output.splitlines()


def test_the_page_describes_every_key_of_the_document(tmp_path: Path) -> None:
    table = PAGE.partition("## The JSON document")[2].partition("\n## ")[0]
    described = set(re.findall(r"`([a-z_]+)", table))
    missing = set(plan_json(tmp_path, "Qwen/Qwen3-8B", "--gpu", "h100")) - described
    assert missing == set()


@pytest.mark.parametrize("option", ["--calibrate", "--catalogue", "--write", "--kv-cache-bytes"])
def test_the_page_names_the_options(option: str) -> None:
    assert option in PAGE
