"""Run `paceline plan` in process, as its users do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from paceline.cli import main

LLAMA_70B = "meta-llama/Meta-Llama-3-70B-Instruct"
QWEN_7B = "Qwen/Qwen2.5-7B-Instruct"


def run_plan(*arguments: str) -> Result:
    """The result of the command with these arguments."""
    return CliRunner().invoke(main, ["plan", *arguments])


def plan_json(folder: Path, *arguments: str) -> dict[str, Any]:
    """The JSON document that the command writes; the command must succeed."""
    file = folder / "plan.json"
    result = run_plan(*arguments, "--json", str(file))
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(file.read_text())
    return document
