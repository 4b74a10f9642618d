"""Five cells worked step by step, on the page and here, are what the planner computes."""

from __future__ import annotations

import re
from pathlib import Path
from unittest import mock

import pytest

from paceline.foundation.planning.sources.this_machine import Machine
from paceline.workbench.plan import command as plan_command
from unit.plan.planning import plan_json
from unit.plan.step_by_step import CELLS, COMMANDS, Cell

PAGE = (Path(__file__).parents[3] / "docs" / "plan-step-by-step.md").read_text()
TWO_CORES = Machine(2, 16 * 1024**3, frozenset({"avx512f", "avx512_bf16"}))


def requests_of(cell: Cell) -> tuple[int, int]:
    """Without drafts, and with."""
    if cell.requests is not None:
        return cell.requests, cell.requests
    return cell.slots(drafts=False), cell.slots(drafts=True)


def worked(cell: Cell) -> dict[str, str]:
    """The rows of the page's table, as it prints them."""
    plain, drafting = requests_of(cell)
    rates = cell.rate(plain, drafts=False), cell.rate(drafting, drafts=True)
    return {
        "requests": f"{plain} / {drafting}",
        "prompt": f"{1e3 * cell.prompt_s(drafts=False):.2f} / "
        f"{1e3 * cell.prompt_s(drafts=True):.2f}",
        "step": f"{1e3 * cell.step_s(plain, 0):.2f} / "
        f"{1e3 * cell.step_s(drafting, cell.length):.2f}",
        "tokens": f"1 / {cell.tokens():.3f}",
        "rate": f"{rates[0]:,.0f} / {rates[1]:,.0f}",
        "choice": "drafts" if rates[1] > rates[0] else "none",
    }


@pytest.mark.parametrize("name", CELLS)
def test_the_planner_computes_what_is_worked_step_by_step(name: str, tmp_path: Path) -> None:
    with mock.patch.object(plan_command, "read_machine", return_value=TWO_CORES):
        plan = plan_json(tmp_path, *COMMANDS[name].split())
    cell = CELLS[name]
    plain, drafting = requests_of(cell)
    without, with_drafts = plan["candidates"]
    assert (without["num_requests"], with_drafts["num_requests"]) == (plain, drafting)
    assert with_drafts["draft_length"] == cell.length
    rates = cell.rate(plain, drafts=False), cell.rate(drafting, drafts=True)
    assert without["output_tokens_per_s"] == pytest.approx(rates[0], rel=2e-3)
    assert with_drafts["output_tokens_per_s"] == pytest.approx(rates[1], rel=2e-3)
    assert plan["draft"]["is_planned"] is (rates[1] > rates[0])


def test_the_page_has_the_figures_that_are_worked_here() -> None:
    rows = re.findall(r"^\| (.+?) \|(.+)\|$", PAGE, re.MULTILINE)
    table = {title: [one.strip() for one in cells.split("|")] for title, cells in rows}
    titles = {
        "requests": "requests at once",
        "prompt": "one prompt, ms",
        "step": "one decode step, ms",
        "tokens": "tokens per request and step",
        "rate": "output tokens/s",
        "choice": "planned",
    }
    for key, title in titles.items():
        assert table[title] == [worked(cell)[key] for cell in CELLS.values()], title


def test_the_page_has_the_commands() -> None:
    shown = [line.removeprefix("paceline plan ") for line in PAGE.splitlines()]
    for name, command in COMMANDS.items():
        assert any(line.startswith(command) for line in shown), name
