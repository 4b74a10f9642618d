"""The plans that the tutorials show are what `paceline plan` prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from documented_commands.pages import PROJECT
from documented_commands.reader_files import write_reader_files
from documented_commands.shown_plans import is_printed, plans_of, print_plan

TUTORIALS = sorted((PROJECT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_shown_plan_is_what_the_command_prints(page: Path, tmp_path: Path) -> None:
    write_reader_files(tmp_path)
    plans = list(plans_of(page.read_text(encoding="utf-8")))
    assert plans
    for plan in plans:
        printed = print_plan(plan.arguments, tmp_path)
        assert is_printed(plan.output, printed), f"{page.name}:{plan.line}:\n" + "\n".join(printed)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (["a", "b", "c"], True),
        (["a", "…"], True),
        (["a", "…", "c"], True),
        (["…", "b", "…"], True),
        (["a", "b"], False),
        (["b", "c"], False),
        (["a", "x", "…"], False),
        (["a", "…", "c", "b"], False),
        ([], False),
    ],
)
def test_lines_may_be_left_out_only_where_the_page_says_so(
    shown: list[str], expected: bool
) -> None:
    assert is_printed(shown, ["a", "b", "c"]) is expected
