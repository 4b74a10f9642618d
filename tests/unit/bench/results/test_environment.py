"""The environment of a report: what it records, and what it leaves out."""

from __future__ import annotations

import pytest

from paceline.foundation.results import environment
from paceline.foundation.results.environment import describe_environment, render_command
from paceline.foundation.results.source_state import SourceState
from paceline.operations.validate.command import validate
from paceline.workbench.audit.command import audit
from paceline.workbench.bench.quick.command import quick_command
from paceline.workbench.bench.run.command import run_command

SECRET_FLAGS = sorted(
    {
        flag
        for command in (audit, validate, quick_command, run_command)
        for option in command.params
        for flag in option.opts
        if flag.endswith("-key") and flag != "--public-key"
    }
)


@pytest.mark.parametrize("flag", SECRET_FLAGS)
def test_the_recorded_command_does_not_contain_keys(flag: str) -> None:
    assert (
        render_command(["/usr/bin/paceline", "bench", "run", flag, "k", f"{flag}=k"])
        == f"paceline bench run {flag} '***' '{flag}=***'"
    )


def test_the_recorded_command_does_not_contain_passwords_of_urls() -> None:
    words = ["/usr/bin/paceline", "validate", "http://me:pa55@h:8000", "--admin-url=http://t@h/"]
    recorded = "paceline validate 'http://***@h:8000' '--admin-url=http://***@h/'"
    assert render_command(words) == recorded


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (SourceState("abc", ()), ("abc", False)),
        (SourceState("abc", (" M src/x.py",)), ("abc", True)),
        (SourceState(None, None), (None, None)),
    ],
)
def test_the_commit_is_recorded_and_whether_files_differ_from_it(
    state: SourceState,
    expected: tuple[str | None, bool | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An installed package has no commit; its version is recorded in any case."""
    monkeypatch.setattr(environment, "source_state", lambda: state)
    found = describe_environment(["paceline"])
    assert (found.commit, found.dirty) == expected
    assert found.paceline
