"""The documents print the figures that their raw results give, and the check detects when not."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from benchmarks.claims.checking import (
    LEDGER,
    ROOT,
    find_all_problems,
    find_problems,
    load_modules,
    read_from,
)
from benchmarks.claims.claim import Claim, DocumentClaims, claim
from benchmarks.claims.page import render_page

READ = read_from(ROOT)
MODULES = load_modules()
IDS = [module.DOCUMENT for module in MODULES]
PAGE = """# Speed

| arm | tokens/s |
|---|---|
| goodput | 97 (64-115) |

[Raw result](../benchmarks/results/x.json), commit `218f472`.

## Elsewhere

No result is linked here: 5 of 6.
"""
RATE = claim("| goodput | {rate:.0f} ({low:.0f}-{high:.0f}) |", rate=97.2, low=64, high=115)


def test_every_figure_with_a_raw_result_equals_it() -> None:
    assert find_all_problems() == []


def test_the_ledger_is_current() -> None:
    """After a change of claims: python -m benchmarks.claims.page > docs/claims.md."""
    assert (ROOT / LEDGER).read_text(encoding="utf-8") == render_page(READ)


def test_the_ledger_shows_a_changed_figure() -> None:
    def read(name: str) -> Mapping[str, Any]:
        path = ("total", "num_requests")
        is_changed = name.startswith("chaos-real-kills-")
        return _with_half_as_much_again(READ(name), path) if is_changed else READ(name)

    before, after = (render_page(one).splitlines() for one in (READ, read))
    assert len(before) == len(after)
    changed = [line for line, now in zip(before, after, strict=True) if line != now]
    assert changed
    assert all(line.startswith("- ") for line in changed)


def test_a_page_that_prints_its_figures_has_no_problem() -> None:
    assert find_problems(PAGE, [RATE], {}) == []


def test_a_wrong_figure_is_found() -> None:
    problems = find_problems(PAGE.replace("97 (64", "98 (64"), [RATE], {})
    assert "does not print what the raw result gives: | goodput | 97 (64-115) |" in problems


def test_a_figure_without_a_claim_is_found() -> None:
    page = PAGE.replace("| goodput", "| table | 89 |\n| goodput")
    (problem,) = find_problems(page, [RATE], {})
    assert problem.startswith("no claim covers 89 in: ")


def test_a_figure_written_into_the_text_of_a_claim_is_not_covered() -> None:
    """Only fields are computed. A number typed into the template would outlive the data."""
    typed = claim("| goodput | 97 ({low:.0f}-{high:.0f}) |", low=64, high=115)
    (problem,) = find_problems(PAGE, [typed], {})
    assert problem.startswith("no claim covers 97 in: ")


def test_a_setting_is_covered_by_its_text_and_must_occur() -> None:
    page = PAGE.replace("Raw result", "Raw result of 3 repeats")
    assert len(find_problems(page, [RATE], {})) == 1
    assert find_problems(page, [RATE], {"setting": ("of 3 repeats",)}) == []
    (problem,) = find_problems(PAGE, [RATE], {"setting": ("of 3 repeats",)})
    assert problem == "does not contain this text of NOT_MEASURED: of 3 repeats"


def test_names_and_code_contain_no_figures() -> None:
    page = PAGE.replace("goodput", "goodput `at 3` on 120M, K=8, P99, float32 and vllm-0.32")
    rate = claim("{rate:.0f} ({low:.0f}-{high:.0f}) |", **RATE.figures)
    assert find_problems(page, [rate], {}) == []


def test_a_page_of_summaries_is_checked_throughout() -> None:
    assert len(find_problems(PAGE, [RATE], {}, guards_all=True)) == 2


@pytest.mark.parametrize("module", MODULES, ids=IDS)
def test_every_planted_wrong_figure_is_found(module: DocumentClaims) -> None:
    """In a copy of the document, one figure after the other has its last digit changed."""
    text = (ROOT / module.DOCUMENT).read_text(encoding="utf-8")
    claims = list(module.claims(READ))
    found = [one for one in claims if _pattern(one).search(text)]
    assert len(found) > 0.8 * len(claims)  # not those with a link inside
    for one in found:
        for changed in _with_one_wrong_figure(text, one):
            problems = find_problems(changed, [one], {})
            assert f"does not print what the raw result gives: {one.render()}" in problems


@pytest.mark.parametrize(
    ("document", "result", "path"),
    [
        ("docs/figures.md", "chaos-real-kills-", ("total", "num_requests")),
        (
            "README.md",
            "compare-smollm2-edit-1-",
            ("difference", "output_tokens_per_s", "low"),
        ),
        (
            "docs/experiments/shifting-trace.md",
            "governor-interleaved-twin-model-campaign-2026-11-30.json.gz",
            ("runs", 3, "seconds"),
        ),
        (
            "docs/experiments/gateway.md",
            "gateway-added-latency-2026-11-21.json.gz",
            ("levels", 2, "runs", 1, "ttft_ms", "p90"),
        ),
        (
            "docs/experiments/step-time.md",
            "governor-step-time-2026-11-30.json",
            ("runs", 0, "policy", "wall_p99_us"),
        ),
        (
            "docs/experiments/simulated-machines.md",
            "governor-simulator-2026-11-21.json.gz",
            ("cells", 0, "ratios", "goodput", "of_oracle"),
        ),
    ],
)
def test_a_changed_raw_result_is_found(document: str, result: str, path: tuple[Any, ...]) -> None:
    """`result` is the start of a name: newer results have another end."""

    def read(name: str) -> Mapping[str, Any]:
        return _with_half_as_much_again(READ(name), path) if name.startswith(result) else READ(name)

    problems = find_all_problems(read=read, only=document)
    assert any("does not print what the raw result gives" in problem for problem in problems)


def _pattern(one: Claim) -> re.Pattern[str]:
    """The claim in an unnormalized document, with a group for every figure."""
    parts = (
        f"({text})" if is_figure else text
        for piece, is_figure in one.pieces()
        for text in [re.escape(piece).replace(r"\ ", r"\s+").replace(r"\-", "[-\u2212]")]
    )
    return re.compile("".join(parts))


def _with_one_wrong_figure(text: str, one: Claim) -> Iterator[str]:
    match = _pattern(one).search(text)
    assert match is not None
    for group in range(1, 1 + len(match.groups())):
        last = match.end(group) - 1
        if text[last].isdigit():
            wrong = str((int(text[last]) + 1) % 10)
            # Everywhere, since some documents print the same text twice.
            printed = match[0]
            at = last - match.start()
            yield text.replace(printed, printed[:at] + wrong + printed[at + 1 :])


def _with_half_as_much_again(document: Mapping[str, Any], path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    node: Any = changed
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] *= 1.5
    return changed
