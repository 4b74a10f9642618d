"""Every command that the README and the docs show is accepted by the program that it starts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from documented_commands.checking import find_problems, needs_models
from documented_commands.other_programs import find_missing_paths
from documented_commands.pages import PAGES, PROJECT, blocks_of, shown_in, shown_on
from documented_commands.reader_files import write_reader_files
from documented_commands.shell import ShellCommand, split_commands

WRITE_A_FILE = ("--html", "--json", "--records")


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")  # ends before the network
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_commands_are_accepted(page: Path, tmp_path: Path) -> None:
    """Those parsed with vLLM or torch are in tests/engine/in_process/test_shown_commands.py."""
    write_reader_files(tmp_path)
    problems = [
        f"{shown}: {problem}"
        for shown in shown_on(page)
        if not needs_models(shown)
        for problem in find_problems(shown, tmp_path)
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("paceline bench run --concurrent-users 8", "No such option '--concurrent-users'"),
        ("paceline bench rum", "No such command 'rum'"),
        ("paceline bench run --workload essays", "'essays' is not one of"),
        ("paceline bench run --slo ttft=fast", "ttft=fast"),
        ("paceline bench run --prompts theirs.jsonl", "'theirs.jsonl' does not exist"),
        ("paceline plan Qwen/Qwen3-8B --num-gpus none", "'none' is not a valid integer"),
        ("paceline plan", "Missing argument 'MODEL'"),
        ("paceline serve --policy fasst", "fasst"),
        ("paceline quality a b --prompt mine.jsonl", "No such option '--prompt'"),
        ("paceline draft eval MODEL --draft src/paceline/demo/draft", "demo/draft does not exist"),
        ("make test-units", "no target test-units"),
        ("make fuzz COUNT=5", "does not use COUNT"),
        ("python benchmarks/soak_kils.py", "no file benchmarks/soak_kils.py"),
        ("python benchmarks/soak_kills.py --faults hangs", "--faults"),
        ("python benchmarks/soak_kills.py --fault hang", "invalid choice: 'hang'"),
        ("python -m benchmarks.mutations src", "no module benchmarks.mutations"),
        ("PYTHONPATH=tolls/none python -m json.tool", None),
        ("curl localhost:8001/admin/governors", "no route /admin/governors"),
        ("curl -X PATCH localhost:8001/metrics", "/metrics has no method PATCH"),
        ("curl -X PATCH localhost:8001/admin/governor -d '{draft_length: 3}'", "is not JSON"),
        (
            """curl -X PATCH localhost:8001/admin/governor -d '{"drafts": 3}'""",
            "'drafts' cannot be set",
        ),
        ("podman build -f deploy/Containerfile.gpu .", "deploy/Containerfile.gpu does not exist"),
        ("pacelin serve", "no check for pacelin"),
    ],
)
def test_a_wrong_command_is_found(command: str, problem: str | None, tmp_path: Path) -> None:
    write_reader_files(tmp_path)
    (shown,) = shown_in("page.md", f"```sh\n{command}\n```\n")
    problems = find_problems(shown, tmp_path)
    if problem is None:
        assert problems == []
    else:
        assert any(problem in found for found in problems), problems


def test_only_paths_of_the_repository_must_exist(tmp_path: Path) -> None:
    """Also after a reader has run commands that write to `runs`."""
    for folder in ("benchmarks", "runs"):
        (tmp_path / folder).mkdir()
    (command,) = split_commands("python benchmarks/a.py --model runs/twin --work runs/work")
    assert list(find_missing_paths(command, tmp_path)) == ["benchmarks/a.py"]


def test_an_option_misspelt_on_a_page_is_found(tmp_path: Path) -> None:
    write_reader_files(tmp_path)
    text = (PROJECT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    page = text.replace("--settings draft_length=5", "--setting draft_length=5")
    assert page != text
    wrong = [shown for shown in shown_in("page.md", page) if find_problems(shown, tmp_path)]
    assert [shown.line for shown in wrong] == [1 + text.splitlines().index(_line_of(text))]


def _line_of(text: str) -> str:
    return next(line for line in text.splitlines() if "--settings draft_length=5" in line)


def test_within_a_sentence_values_may_be_missing_but_options_must_exist(tmp_path: Path) -> None:
    text = "`paceline render alerts --job` and `paceline render alerts --jobs`, `paceline plan`"
    named, wrong, whole = shown_in("page.md", text)
    assert find_problems(named, tmp_path) == []
    assert find_problems(whole, tmp_path) == []
    assert "No such option '--jobs'" in find_problems(wrong, tmp_path)[0]


def test_commands_are_split_as_a_shell_does() -> None:
    one, two = split_commands("A=1 .venv/bin/paceline top --once > state.txt | grep 'a;b' # why")
    assert (one.program, one.words[1:], one.output) == ("paceline", ("top", "--once"), "state.txt")
    assert one.environment == ("A=1",)
    assert two.words == ("grep", "a;b")
    assert [one.words for one in split_commands("for i in 1 2; do make $i; done")] == [
        ("make", "$i")
    ]


def test_only_lines_after_a_prompt_are_commands() -> None:
    page = "```console\n$ paceline plan \\\n    Qwen/Qwen3-8B\nFits. Holds 5\n$ make site\n```\n"
    shown = list(shown_in("page.md", page))
    assert [one.command.words for one in shown] == [
        ("paceline", "plan", "Qwen/Qwen3-8B"),
        ("make", "site"),
    ]
    assert [one.line for one in shown] == [2, 5]


def test_output_and_diagrams_are_no_commands() -> None:
    page = "```\nFits. Holds 5\n```\n```\npaceline serve ── gateway\n```\n```yaml\nmake: 1\n```\n"
    assert list(shown_in("page.md", page)) == []
    assert len(list(blocks_of(page))) == 3


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_what_the_first_pages_have_the_reader_write_is_ignored_by_git(page: str) -> None:
    """A benchmark refuses to start in a checkout with new files."""
    shown = shown_on(PROJECT / page)
    files = [file for one in shown if one.is_block for file in _written_by(one.command)]
    assert files
    command = ["git", "check-ignore", "--no-index", *files]
    done = subprocess.run(command, cwd=PROJECT, check=False, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.splitlines() == files


def _written_by(command: ShellCommand) -> Iterator[str]:
    """Files that the command writes in the root of the checkout."""
    if command.output is not None:
        yield command.output
    yield from (file for option, file in pairwise(command.words) if option in WRITE_A_FILE)
