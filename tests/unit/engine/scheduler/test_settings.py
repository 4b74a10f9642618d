"""The settings under the key "paceline" of vLLM's additional_config, and their bounds."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.engine.scheduler.settings import (
    PluginSettings,
    check_policy_parameters,
    parse_settings,
)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"paceline": 3}, "must be a JSON object"),
        ({"paceline": {"polcy": "off"}}, "unknown key 'polcy'; allowed keys: policy"),
        ({"paceline": {"policy": "best"}}, "policy is 'best'"),
        ({"paceline": {"draft_length": 9}}, "draft_length is 9; .* 0 .off. to 8"),
        ({"paceline": {"policy": "schedule"}}, "needs the parameter schedule: .*; set it in --add"),
        ({"paceline": {"schedule": 3}}, "schedule is 3; it must be a list; set it in --add"),
        ({"paceline": {"schedule": [3]}}, "schedule entry 3 must be three whole numbers"),
        ({"paceline": {"schedule": [[2, 3, 1]]}}, "must start at 1"),
        ({"paceline": {"control_socket": "here"}}, "absolute path"),
        ({"paceline": {"reproducible_seeds": 1}}, "reproducible_seeds is 1: .* valid boolean"),
        ({"paceline": {"control_socket": "/" + "x" * 107}}, "at most 107 bytes"),
        (
            {"paceline": {"costs_folder": "here"}},
            "costs_folder is 'here': it must be an absolute path",
        ),
    ],
)
def test_wrong_settings_are_refused_with_a_message(given: object, message: str) -> None:
    """The message has the given value and the allowed ones."""
    with pytest.raises(ValueError, match=message):
        parse_settings(given, max_draft_length=8)


@pytest.mark.parametrize("given", [{}, None, {"other": 1}, {"paceline": {}}])
def test_missing_settings_have_defaults(given: object) -> None:
    """Policy goodput and no control channel; keys of other plugins are ignored."""
    settings = parse_settings(given, max_draft_length=8, environ={})
    assert settings == PluginSettings(policy="goodput")


def test_every_setting_is_read() -> None:
    given = {
        "paceline": {
            "policy": "schedule",
            "draft_length": 2,
            "schedule": [[1, 4, 5], [5, 64, 0]],
            "control_socket": "/run/c.sock",
            "reproducible_seeds": True,
            "separate_tenants": True,
            "compact_json": True,
            "recording_file": "/var/lib/r.jsonl",
            "costs_folder": "/var/cache/costs",
        }
    }
    assert parse_settings(given, max_draft_length=8) == PluginSettings(
        "schedule",
        2,
        ((1, 4, 5), (5, 64, 0)),
        "/run/c.sock",
        reproducible_seeds=True,
        separate_tenants=True,
        compact_json=True,
        recording_file=Path("/var/lib/r.jsonl"),
        costs_folder=Path("/var/cache/costs"),
    )


@pytest.mark.parametrize("file", ["r.jsonl", 3, ""])
def test_the_file_of_recordings_needs_an_absolute_path(file: object) -> None:
    with pytest.raises(ValueError, match=r"recording_file is .* path.*; set it in --additional"):
        parse(recording_file=file)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HOME": "/home/a"}, "/home/a/.cache/paceline/costs"),
        ({"HOME": "/home/a", "XDG_CACHE_HOME": "/cache"}, "/cache/paceline/costs"),
        ({"HOME": "/home/a", "PACELINE_COSTS_FOLDER": "/costs"}, "/costs"),
        ({"HOME": "/home/a", "PACELINE_COSTS_FOLDER": ""}, None),
        ({"HOME": "relative"}, None),
        ({}, None),
    ],
)
def test_costs_are_kept_below_the_users_cache_folder(
    environ: dict[str, str], folder: str | None
) -> None:
    """The environment may name another folder, or switch measuring off."""
    found = parse_settings({}, max_draft_length=8, environ=environ).costs_folder
    assert found == (None if folder is None else Path(folder))


def test_an_empty_folder_of_costs_switches_measuring_off() -> None:
    given = {"paceline": {"costs_folder": ""}}
    settings = parse_settings(given, max_draft_length=8, environ={"HOME": "/home/a"})
    assert settings.costs_folder is None


SCHEDULE = [[1, 4, 5], [5, 64, 0]]


def parse(**given: Any) -> PluginSettings:
    return parse_settings({"paceline": given}, max_draft_length=8)


@pytest.mark.parametrize("length", [0, 8])
def test_a_length_from_off_to_the_maximum_is_taken(length: int) -> None:
    assert parse(draft_length=length).draft_length == length


@pytest.mark.parametrize("length", [-1, True, 2.0, "3"])
def test_another_length_is_refused(length: object) -> None:
    with pytest.raises(ValueError, match=rf"draft_length is {length!r}: .*set it in --additional"):
        parse(draft_length=length)


TIMES = ["time_per_output_token_ms", "max_pause_ms"]


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize(("given", "read"), [(50, 50.0), (0.5, 0.5)])
def test_an_objective_is_a_positive_number(name: str, given: float, read: float) -> None:
    objective = getattr(parse(**{name: given}), name)
    assert objective == read
    assert type(objective) is float


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("given", [0, -5, float("inf"), float("nan"), True, "50"])
def test_another_objective_is_refused(name: str, given: object) -> None:
    with pytest.raises(
        ValueError, match=rf"{name} is .*: Input should be .* number|greater than 0"
    ):
        parse(**{name: given})


def test_a_socket_path_of_107_bytes_is_taken() -> None:
    """Bytes count, not characters."""
    path = "/" + "x" * 106
    assert parse(control_socket=path).control_socket == path
    with pytest.raises(ValueError, match="at most 107 bytes"):
        parse(control_socket="/é" + "x" * 105)
    with pytest.raises(ValueError, match="control_socket is 7: "):
        parse(control_socket=7)


def test_paths_may_come_from_the_environment() -> None:
    environ = {"PACELINE_CONTROL_SOCKET": "/run/c.sock", "PACELINE_RECORDING_FILE": "/log/r.jsonl"}

    def paths(**given: object) -> tuple[str | None, Path | None]:
        settings = parse_settings({"paceline": given}, max_draft_length=8, environ=environ)
        return settings.control_socket, settings.recording_file

    assert paths() == ("/run/c.sock", Path("/log/r.jsonl"))
    assert paths(control_socket="/own.sock") == ("/own.sock", Path("/log/r.jsonl"))
    environ["PACELINE_CONTROL_SOCKET"] = "relative"
    with pytest.raises(ValueError, match="control_socket is 'relative'"):
        paths()


def test_a_policy_is_named_by_a_text() -> None:
    with pytest.raises(ValueError, match=r"policy is 7: .* valid string; set it in"):
        parse(policy=7)
    with pytest.raises(ValueError, match=r"policy is 'best'.*; set it in --additional-config"):
        parse(policy="best")


def test_parameters_of_the_policy_are_checked() -> None:
    settings = parse(policy="fixed", policy_parameters={"draft_length": 3})
    assert settings.policy_parameters == {"draft_length": 3}
    with pytest.raises(ValueError, match=r"has no parameter 'speed'.*; set it in --additional"):
        parse(policy="fixed", policy_parameters={"speed": 3})
    with pytest.raises(ValueError, match=r"policy_parameters is \[3\]: .* valid dictionary"):
        parse(policy="fixed", policy_parameters=[3])


@pytest.mark.parametrize("key", ["draft_length", "schedule"])
def test_a_parameter_that_is_given_twice_is_refused(key: str) -> None:
    values: dict[str, Any] = {"draft_length": 3, "schedule": SCHEDULE}
    policy = "fixed" if key == "draft_length" else "schedule"
    with pytest.raises(ValueError, match=f"{key} is given twice"):
        parse(policy=policy, policy_parameters={key: values[key]}, **{key: values[key]})


def test_settings_do_not_share_the_given_parameters() -> None:
    given = {"draft_length": 3}
    settings = parse(policy="fixed", policy_parameters=given)
    given["draft_length"] = 9
    assert settings.policy_parameters == {"draft_length": 3}


def test_each_policy_gets_its_own_parameters() -> None:
    """The length and the schedule go to every policy that takes them, the others to theirs."""
    settings = PluginSettings("fixed", 2, policy_parameters={"width": 5})
    assert settings.parameters_for("fixed") == {"draft_length": 2, "width": 5}
    assert settings.parameters_for("schedule") == {"draft_length": 2}
    assert PluginSettings("off").parameters_for("off") == {}
    settings = PluginSettings("fixed", schedule=((1, 4, 5),))
    assert settings.parameters_for("schedule") == {"schedule": ((1, 4, 5),)}


def test_parameters_for_another_policy_are_checked_with_those_of_the_settings() -> None:
    """A switch to schedule is possible where the settings have a table."""
    check_policy_parameters(parse(schedule=SCHEDULE), "schedule", {})
    with pytest.raises(ValueError, match="policy schedule needs the parameter schedule"):
        check_policy_parameters(parse(), "schedule", {})
    check_policy_parameters(parse(draft_length=3), "goodput", {})


def test_settings_do_not_change() -> None:
    settings = PluginSettings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.policy = "off"  # type: ignore[misc]
    assert not hasattr(settings, "__dict__")
