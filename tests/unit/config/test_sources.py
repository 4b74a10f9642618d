"""Precedence of the layers, and error messages."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from paceline.runtime.config import (
    ConfigError,
    DialectName,
    ReplicaSettings,
    Settings,
    load_settings,
)
from paceline.runtime.config.sources import SETTING_KEYS
from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.policy_registry import policy_names

PORT = ("server", "port")


def test_without_any_layer_the_defaults_apply() -> None:
    loaded = load_settings({}, {})
    assert loaded.settings == Settings()
    assert loaded.settings.server.port == 8000
    assert str(loaded.origin(PORT)) == "default"


def test_flags_win_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("server: {port: 1, admin_port: 2, host: '::1'}\n")
    environ = {"PACELINE_SERVER__PORT": "3", "PACELINE_SERVER__ADMIN_PORT": "4"}
    loaded = load_settings({PORT: ("--port", 5)}, environ, file)
    server = loaded.settings.server
    assert (server.port, server.admin_port, server.host) == (5, 4, "::1")
    assert str(loaded.origin(PORT)) == "flag --port"
    assert str(loaded.origin(("server", "admin_port"))) == "environment PACELINE_SERVER__ADMIN_PORT"
    assert str(loaded.origin(("server", "host"))) == f"file {file}"


def test_the_file_in_the_working_folder_is_read_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("paceline.yaml").write_text("engine:\n  draft: ngram\n")
    assert load_settings({}, {}).settings.engine.draft == "ngram"


def test_lists_are_given_as_json_in_the_environment() -> None:
    environ = {
        "PACELINE_ENGINE__POLICY": "schedule",
        "PACELINE_ENGINE__SCHEDULE": "[[1, 4, 6], [5, 256, 2]]",
        "PACELINE_ENGINE__VLLM_ARGS": '["--max-num-seqs", "4"]',
    }
    engine = load_settings({}, environ).settings.engine
    assert engine.schedule == ((1, 4, 6), (5, 256, 2))
    assert engine.vllm_args == ("--max-num-seqs", "4")


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"PACELINE_SERVER__PROT": "1"}, "PACELINE_SERVER__PROT is not a setting"),
        ({"PACELINE_SERVER__PROT": "1"}, "did you mean PACELINE_SERVER__PORT?"),
        ({"PACELINE_SERVER__DRAFT": "none"}, "did you mean PACELINE_ENGINE__DRAFT?"),
        ({"PACELINE_SERVR__PORT": "1"}, "did you mean PACELINE_SERVER__PORT?"),
        ({"PACELINE_SERVER__PORT": "eighty"}, "server.port is 'eighty'"),
        ({"PACELINE_SERVER__PORT": "70000"}, "less than or equal to 65535"),
        ({"PACELINE_SERVER__DRAIN_TIMEOUT_S": "inf"}, "finite number"),
        ({"PACELINE_SERVER__STALL_TIMEOUT_S": "nan"}, "finite number"),
        ({"PACELINE_FAILURES__MAX_OPEN_S": "inf"}, "finite number"),
        (
            {"PACELINE_ENGINE__POLICY": "fast"},
            " goodput, fixed, latency, ",
        ),
        ({"PACELINE_ENGINE__POLICY": "schedule"}, "for example [[1, 8, 6], [9, 256, 2]]"),
        ({"PACELINE_ENGINE__DRAFT_LENGTH": "9"}, "it must be from 0 (off) to 8"),
    ],
)
def test_errors_say_what_was_given_and_what_is_allowed(
    environ: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({}, environ)
    assert message in str(caught.value)


def test_variables_of_other_programs_are_ignored() -> None:
    """For example those of a Kubernetes service called paceline, and one of `paceline bench`."""
    environ = {
        "PACELINE_SERVICE_HOST": "10.0.0.1",
        "PACELINE_PORT": "tcp://10.0.0.1:8000",
        "PACELINE_PORT_8000_TCP_ADDR": "10.0.0.1",
        "PACELINE_BENCH_API_KEY": "k",
    }
    assert load_settings({}, environ).settings == Settings()


def test_the_policies_are_those_of_the_governor() -> None:
    for name in policy_names():
        environ = {"PACELINE_ENGINE__POLICY": name, "PACELINE_ENGINE__SCHEDULE": "[[1, 8, 4]]"}
        assert load_settings({}, environ).settings.engine.policy == name
    with pytest.raises(ConfigError) as caught:
        load_settings({}, {"PACELINE_ENGINE__POLICY": "fast"})
    assert str(caught.value) == (
        "engine.policy (from environment PACELINE_ENGINE__POLICY): "
        f"policy is 'fast'; it must be one of {', '.join(policy_names())}"
    )


def test_an_error_names_the_origin_of_the_value(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("engine: {replicas: -1}\n")
    with pytest.raises(ConfigError, match=r"engine\.replicas is -1 \(from file .*p\.yaml\)"):
        load_settings({}, {}, file)


def test_all_unknown_settings_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings({}, {"PACELINE_A__B": "1", "PACELINE_C__": "2"})
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize("content", ["- 1\n- 2\n", "text", "a: [", "a: b: c"])
def test_files_that_are_not_a_mapping_are_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"p\.yaml"):
        load_settings({}, {}, file)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_settings({}, {}, tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("replicas: [{urll: 'http://a:1'}]", "replicas.0.urll is not a setting (from file"),
        ("replicas: [{url: 'http://a:1'}, {url: 5}]", "replicas.1.url is a int (from file"),
        ("replicas: [{url: 'http://a:1', dialect: ollama}]", "'sglang'"),
        ("replicas: [{url: 'http://a:1', max_in_flight: 0}]", "replicas.0.max_in_flight is a int"),
        ("replicas: {url: 'http://a:1'}", "replicas is a dict (from file"),
        ("replicas: 2", "replicas is a int (from file"),
        ("fleet: {poll_period_s: 0}", "fleet.poll_period_s is 0"),
    ],
)
def test_an_error_in_a_list_names_the_entry(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(content)
    with pytest.raises(ConfigError) as caught:
        load_settings({}, {}, file)
    assert message in str(caught.value)


def test_an_empty_list_of_replicas_is_the_default(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("replicas: []\n")
    assert load_settings({}, {}, file).settings == Settings()


def test_the_dialects_are_those_of_the_gateway() -> None:
    """The configuration imports no part of the gateway, so it repeats the names."""
    assert set(get_args(DialectName)) == set(DIALECTS)


def test_every_setting_is_described() -> None:
    described = [(f"{'.'.join(key)}", _field(key).description) for key in SETTING_KEYS] + [
        (name, field.description) for name, field in ReplicaSettings.model_fields.items()
    ]
    for name, description in described:
        assert description, name


def _field(key: tuple[str, ...]) -> FieldInfo:
    *sections, name = key
    node: type[BaseModel] = Settings
    for section in sections:
        node = type(getattr(node(), section))
    return node.model_fields[name]


def test_parameters_that_no_policy_can_be_built_with_are_refused_before_an_engine_starts() -> None:
    """A bound that depends on the ceiling: the policy is built to find out."""
    environ = {
        "PACELINE_ENGINE__POLICY": "fixed",
        "PACELINE_ENGINE__POLICY_PARAMETERS": '{"draft_length": 9}',
    }
    with pytest.raises(ConfigError, match=r"draft_length is 9; it must be from 0 \(off\) to 8"):
        load_settings({}, environ)
    environ["PACELINE_ENGINE__DRAFT_LENGTH_MAX"] = "9"
    assert load_settings({}, environ).settings.engine.policy_parameters == {"draft_length": 9}
