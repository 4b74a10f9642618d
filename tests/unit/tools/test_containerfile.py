"""A Containerfile as steps: what each sets for the later ones, and where COPY copies to."""

from __future__ import annotations

from pathlib import Path

import pytest
from containerfile.chroots import entered
from containerfile.steps import (
    ContainerfileError,
    Context,
    Stage,
    Step,
    after,
    copied,
    parse,
)

_FILE = Path(__file__).parents[3] / "deploy" / "Containerfile.cpu"


def _context(stage: Stage, given: dict[str, str] | None = None) -> Context:
    context = Context()
    for step in stage.steps:
        context = after(context, step, given or {})
    return context


def test_the_image_for_cpus_has_two_stages_and_the_second_is_served() -> None:
    first, second = parse(_FILE.read_text())
    assert (first.name, second.name) == ("build", None)
    context = _context(second)
    assert context.user == "10001:10001"
    assert context.folder == "/var/cache/paceline"
    assert context.environment["PATH"].startswith("/opt/paceline/.venv/bin:/usr/local/sbin:")
    assert context.environment["HOME"] == "/var/cache/paceline"
    assert context.entry_point + context.command == ("paceline", "serve", "--host", "0.0.0.0")


def test_an_argument_has_its_default_until_one_is_given() -> None:
    first, _ = parse(_FILE.read_text())
    name = "TORCH_INDEX"
    assert _context(first).arguments[name].startswith("https://download.pytorch.org/")
    assert _context(first, {name: "https://mirror"}).arguments[name] == "https://mirror"


def test_a_step_may_have_several_lines_with_comments_between_them() -> None:
    (stage,) = parse("# a\nFROM debian\n\nRUN one \\\n# why\n    && two\nUSER 1:1\n")
    assert [(step.name, step.line) for step in stage.steps] == [("RUN", 4), ("USER", 7)]
    assert stage.steps[0].arguments.split() == ["one", "&&", "two"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a b ./", (None, ["a", "b"], "/opt/app/")),
        ("src src", (None, ["src"], "/opt/app/src")),
        ("a /etc/a", (None, ["a"], "/etc/a")),
        ("--from=build /x /y", ("build", ["/x"], "/y")),
    ],
)
def test_copy_goes_into_the_folder_of_the_step(
    arguments: str, expected: tuple[str | None, list[str], str]
) -> None:
    assert copied(Step("COPY", arguments, 1), Context(folder="/opt/app")) == expected


def test_values_of_one_env_see_the_environment_before_it() -> None:
    context = after(Context(environment={"A": "1"}), Step("ENV", "A=2 B=$A C=${A}x D=$gone", 1), {})
    assert context.environment == {"A": "2", "B": "1", "C": "1x", "D": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no FROM"),
        ("RUN a", "line 1: RUN stands before the first FROM"),
        ("FROM a\nONBUILD RUN b", "line 2: ONBUILD is not known"),
        ("FROM a WITH b", "line 1: FROM a WITH b"),
        ("FROM a\nRUN b \\", "line 2: the last instruction does not end"),
    ],
)
def test_what_cannot_be_executed_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ContainerfileError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Step("CMD", "serve", 3), "line 3: CMD needs a JSON list"),
        (Step("ENTRYPOINT", '["a", 1]', 4), "line 4: ENTRYPOINT needs a JSON list"),
    ],
)
def test_commands_must_be_lists(step: Step, message: str) -> None:
    with pytest.raises(ContainerfileError, match=message):
        after(Context(), step, {})


def test_copy_with_an_unknown_option_is_refused() -> None:
    with pytest.raises(ContainerfileError, match="line 5: COPY --chown is not known"):
        copied(Step("COPY", "--chown=1:1 a b", 5), Context())


def test_a_command_sees_only_its_own_variables() -> None:
    command = entered(
        Path("/r"), Context(user="1:2", folder="/w"), ["a", "b"],
        variables={"X": "y"}, binds=[("/from", "/to")],
    )  # fmt: skip
    assert command[command.index("enter") + 1 :] == [
        "/r", "1:2", "/w", "/from", "/to", "--", "-i", "X=y", "a", "b",
    ]  # fmt: skip
