"""The stranger's path is the README's own; whatever it does not know of the README is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.readme_path import ReadmeChanged, read_path

README = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")


def test_the_commands_are_those_of_the_readme() -> None:
    path = read_path(README)
    assert path.serve == "make serve"
    assert path.ready_text == "serving smollm2-135m-instruct"
    assert path.data_url == "http://127.0.0.1:8000/v1/chat/completions"
    assert path.dashboard_url == "http://127.0.0.1:8001"
    assert path.diagnose == ".venv/bin/paceline doctor"
    for command in (path.serve, path.ask, path.measure, path.diagnose):
        assert command in README
    assert path.measure.endswith(f"--html {path.report}")


def test_a_command_of_several_lines_stays_whole() -> None:
    ask = read_path(README).ask
    assert ask.startswith("curl -N ")
    assert ask.count("\n") > 1
    assert ask.endswith("}'")


@pytest.mark.parametrize(
    ("shown", "instead", "message"),
    [
        ("```\nmake serve\n```", "", "'make serve'|curl.*`serve` was expected"),
        ("make serve\n", "make serve\n.venv/bin/paceline serve --check\n", "`ask` was expected"),
        ("make serve\n", "make install\nmake serve\n", "'make install' where `serve`"),
        ('"stream": true', '"stream": false', "`ask` was expected"),
        (" --html report.html", "", "`measure` was expected"),
        (".venv/bin/paceline doctor\n", "", "no command for: diagnose"),
        (".venv/bin/paceline doctor\n", ".venv/bin/paceline doctor --probe\n", "`diagnose`"),
        ("make test\n", "make test\nmake test-slow\n", "'make test-slow' after the last step"),
        (
            "When it prints `serving smollm2-135m-instruct`",
            "When it is ready",
            "0 times what the server",
        ),
        ("Open `http://127.0.0.1:8001`", "Open the dashboard", "0 times the URL"),
        ("## Start", "## Begin", 'no section "## Start"'),
    ],
)
def test_a_change_of_the_readme_is_noticed(shown: str, instead: str, message: str) -> None:
    changed = README.replace(shown, instead, 1)
    assert changed != README
    with pytest.raises(ReadmeChanged, match=message):
        read_path(changed)


def test_a_second_url_to_open_is_noticed() -> None:
    more = "Open `http://127.0.0.1:8001` to watch"
    with pytest.raises(ReadmeChanged, match="2 times the URL"):
        read_path(README.replace(more, f"Open `http://127.0.0.1:8002`. {more}", 1))
