"""No file, variable or name leaves a protection at its default by being empty or misspelt."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.config import ConfigError, Settings, load_settings, sources


@pytest.fixture(autouse=True)
def _empty_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refusal(environ: dict[str, str] | None = None, text: str | bytes | None = None) -> str:
    """Why these settings are refused."""
    file = None
    if text is not None:
        file = Path("p.yaml")
        file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ConfigError) as caught:
        load_settings({}, environ or {}, file)
    return str(caught.value)


MISSPELT = {
    "PACELINE_KEY__FILE": "PACELINE_KEYS__FILE",
    "PACELINE_KEYS_FILE": "PACELINE_KEYS__FILE",
    "PACELINE_KEYS___FILE": "PACELINE_KEYS__FILE",
    "PACELINE__KEYS__FILE": "PACELINE_KEYS__FILE",
    "PACELINE_KEYS__FILE_": "PACELINE_KEYS__FILE",
    "paceline_keys__file": "PACELINE_KEYS__FILE",
    "PACELINE_keys__file": "PACELINE_KEYS__FILE",
    "PACLINE_KEYS__FILE": "PACELINE_KEYS__FILE",
    "PACE_LINE_KEYS__FILE": "PACELINE_KEYS__FILE",
    "PACELINE_KEYS__ADMIN_KEYFILE": "PACELINE_KEYS__ADMIN_KEY_FILE",
    "PACELINE_ADMIN_KEY_FILE": "PACELINE_KEYS__ADMIN_KEY_FILE",
    "PACELINE_SERVER_PORT": "PACELINE_SERVER__PORT",
    "PACELINE_REPLICAS": "PACELINE_ENGINE__REPLICAS",
    "Paceline_Admin_Key": "PACELINE_ADMIN_KEY",
    "PACLINE_KEYS_FILE": "PACELINE_KEYS__FILE",
    "PACELINE-KEYS-FILE": "PACELINE_KEYS__FILE",
    "PACELIN_KEYS__FILES": "PACELINE_KEYS__FILE",
    "paceline.keys.file": "PACELINE_KEYS__FILE",
    "Pacelien-Keys-Salt-File": "PACELINE_KEYS__SALT_FILE",
    "PACELINEKEYS__FILE": "PACELINE_KEYS__FILE",
    "PACELINE KEYS FILE": "PACELINE_KEYS__FILE",
    "PACE-LINE-KEY-FILE": "PACELINE_KEYS__FILE",
    "PACELNE_ADMIN_HOST": "PACELINE_SERVER__ADMIN_HOST",
    "SPACELINE_KEYS__METRIC_NEEDS_KEY": "PACELINE_KEYS__METRICS_NEED_KEY",
}


@pytest.mark.parametrize(("name", "right"), MISSPELT.items())
def test_a_misspelt_variable_is_refused_with_the_right_name(name: str, right: str) -> None:
    assert f"{name} is not a setting; did you mean {right}?" in refusal({name: "x"})


def test_a_variable_that_resembles_nothing_is_refused_too() -> None:
    assert "PACELINE_FLAVOUR is not a setting; " in refusal({"PACELINE_FLAVOUR": "x"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PACELINE_PORT", "tcp://10.0.0.1:8000"),
        ("PACELINE_PORT_8000_TCP", "tcp://10.0.0.1:8000"),
        ("PACELINE_GATEWAY_SERVICE_PORT_HTTP", "8000"),
        ("PACELINE_GATEWAY_PORT_8000_TCP_PROTO", "tcp"),
        ("PACELINE_GATEWAY_PORT", "udp://10.0.0.1:53"),
        ("PACELINE_ADMIN_KEY", "pl-x"),
        ("PACELINE_CORE_ENV_KMP_AFFINITY", "x"),
        ("PACELINE_SUPERVISED", "1"),
        ("KEYS__FILE", "of another program"),
        ("TIMELINE_KEYS__FILE", "of another program"),
        ("PIPELINE_SERVER__PORT", "of another program"),
        ("BASELINE_ENGINE_MODEL", "of another program"),
        ("SPACELINE_HOME", "of another program"),
        ("PACELINE2_SERVICE_HOST", "10.0.0.1"),
        ("PACELINES_PORT", "tcp://10.0.0.1:8000"),
        ("PACE_LINE_PORT_8000_TCP_ADDR", "10.0.0.1"),
    ],
)
def test_variables_of_kubernetes_and_of_other_commands_are_left_alone(
    name: str, value: str
) -> None:
    assert load_settings({}, {name: value}).settings == Settings()


@pytest.mark.parametrize("value", ["8000", "", "http://10.0.0.1"])
def test_a_port_that_kubernetes_did_not_set_is_a_misspelt_setting(value: str) -> None:
    assert "did you mean PACELINE_SERVER__PORT?" in refusal({"PACELINE_PORT": value})


EMPTY = {
    "an empty file": "",
    "a file of comments": "# keys:\n#   file: keys\n",
    "an empty document": "---\n",
    "an empty mapping": "{}\n",
    "a section without settings": "keys:\n",
    "an empty section": "keys: {}\n",
    "an empty list of replicas": "replicas:\n",
    "a setting without a value": "keys: {file: }\n",
    "null": "keys: {admin_key_file: null}\n",
    "a tilde": "keys: {audit_file: ~}\n",
    "an empty text": "keys: {file: ''}\n",
    "a blank text": 'keys: {file: " \\t"}\n',
    "an empty list": "server: {allowed_hosts: []}\n",
    "a blank host": "server: {admin_host: ' '}\n",
    "in an entry of replicas": "replicas: [{url: 'http://a:1', key_file: }]\n",
    "a blank text in an entry": "replicas: [{url: 'http://a:1', model: ''}]\n",
}


@pytest.mark.parametrize("text", EMPTY.values(), ids=EMPTY)
def test_nothing_is_no_value_in_a_file(text: str) -> None:
    message = refusal(text=text)
    assert "empty" in message or "contains no settings" in message


def test_an_empty_variable_does_not_remove_the_value_of_the_file() -> None:
    text = "keys: {file: keys}\n"
    for value in ("", " ", "\t"):
        assert "keys.file is empty" in refusal({"PACELINE_KEYS__FILE": value}, text)


WRONG_TYPE = {
    "a list for a section": ("keys: [file]", "keys is a list"),
    "a text for a section": ("keys: file", "keys is a str"),
    "a number for a section": ("server: 8000", "server is a int"),
    "true for a number": ("server: {max_connections: true}", "max_connections is True"),
    "true for a fraction": ("capture: {share: true}", "it must be a number"),
    "infinity": ("server: {stall_timeout_s: .inf}", "finite number"),
    "not a number": ("server: {max_tenant_buffered_fraction: .nan}", "finite number"),
    "an octal text": ("admission: {max_queue: '010'}", "without leading zeros"),
    "a text with underscores": ("server: {port: '8_0'}", "without leading zeros or underscores"),
    "digits of another script": (
        "server: {port: '\uff18\uff10\uff18\uff10'}",
        "write the number in decimal",
    ),
    "superscript digits": ("server: {port: '8²'}", "write the number in decimal"),
    "a fraction with leading zeros": ("capture: {share: '00.5'}", "write the number in decimal"),
    "a number of 5,000 hexadecimal digits": (f"server: {{port: 0x{'f' * 5000}}}", "too large"),
    "a text of 5,000 digits": (f"server: {{port: '{'9' * 5000}'}}", "server.port is '9999"),
    "a long list for a number": (f"server: {{port: [{'1, ' * 50_000}]}}", "server.port is [1, 1"),
    "zero": ("server: {max_connections: 0}", "greater than or equal"),
    "negative": ("admission: {max_in_flight: -1}", "greater than or equal"),
    "maybe": ("keys: {metrics_need_key: maybe}", "valid boolean"),
    "two": ("keys: {metrics_need_key: 2}", "valid boolean"),
    "a date": ("keys: {file: [2027-01-31]}", "keys.file is"),
    "a control character": ('keys: {file: "a\\0b"}', "control characters"),
    "a list member twice": ("server: {granted_fields: [a, a]}", "twice"),
    "a wildcard host": ("server: {allowed_hosts: ['*']}", "wildcards"),
    "a host with a port": ("server: {allowed_hosts: ['a.example:80']}", "without a port"),
    "an empty host": ("server: {allowed_hosts: ['']}", "it lists ''"),
    "an origin with a path": ("server: {allowed_origins: ['https://a.example/']}", "nothing after"),
    "an origin without a scheme": ("server: {allowed_origins: [a.example]}", "scheme, host"),
    "an origin with a port that none is": (
        "server: {allowed_origins: ['http://a.example:99999']}",
        "it lists 'http://a.example:99999'",
    ),
    "a pattern of origins": ("server: {allowed_origins: ['https://*.example']}", "or * for all"),
    "a boolean in an entry": ("replicas: [{url: 'http://a:1', max_in_flight: true}]", "a number"),
}


@pytest.mark.parametrize(("text", "message"), WRONG_TYPE.values(), ids=WRONG_TYPE)
def test_a_value_of_the_wrong_type_is_not_converted_into_another(text: str, message: str) -> None:
    assert message in refusal(text=text)


@pytest.mark.parametrize(
    ("value", "means"),
    [("off", False), ("'no'", False), ("'False'", False), ("on", True), ("'yes'", True), (1, True)],
)
def test_words_for_true_and_false_mean_what_they_say(value: Any, means: bool) -> None:
    file = Path("p.yaml")
    file.write_text(f"keys: {{metrics_need_key: {value}}}\n")
    assert load_settings({}, {}, file).settings.keys.metrics_need_key is means


def test_off_is_the_policy_of_that_name() -> None:
    Path("paceline.yaml").write_text("engine: {policy: off, draft: none}\n")
    assert load_settings({}, {}).settings.engine.policy == "off"


@pytest.mark.parametrize("content", [b"\xff\xfek\x00", b"keys: {file: \xe4}", b"\x00\x01\x02"])
def test_a_file_in_another_encoding_is_refused(content: bytes) -> None:
    assert "p.yaml is not valid" in refusal(text=content)


def test_a_byte_order_mark_is_no_part_of_the_first_section() -> None:
    file = Path("p.yaml")
    file.write_bytes(b"\xef\xbb\xbfserver: {port: 9}\n")
    assert load_settings({}, {}, file).settings.server.port == 9


@pytest.mark.parametrize(
    "name",
    [
        *("paceline.yml", "Paceline.yaml", "paceline.YML", "PaceLine.yaml", "PACELINE.yml"),
        *("paceline.json", "paceline.yaml.txt", ".paceline.yaml", "pacelin.yaml", "paceline.yaml "),
        *("paceline.yaml~", "paceline.yaml.bak", "paceline.ymal", "pacelien.yml", "pace-line.yaml"),
        *("pace line.yaml", "paceline .yml", "..paceline.json", "pacelines.YAML", "paceline.toml"),
        *("paceline.yaml\n", "p\u0430celine.yaml", "paceline.yaml.d"),
    ],
)
def test_a_settings_file_with_a_similar_name_is_not_ignored(name: str) -> None:
    Path(name).write_text("keys: {file: keys}\n")
    message = refusal()
    assert f"the working folder has {name!a}" in message
    assert f"rename it to paceline.yaml, or give it with --config {shlex.quote(name)}" in message
    assert load_settings({}, {}, Path(name)).settings.keys.file == Path("keys")


@pytest.mark.parametrize(
    "name",
    [
        *("baseline.yaml", "pipeline.yml", "timeline.json", "paceline", "paceline.log"),
        *("paceline-fleet.yaml", "paceline.service", "paceline.py", "compose.yaml", ".yaml"),
    ],
)  # fmt: skip
def test_files_of_other_names_are_left_alone(name: str) -> None:
    Path(name).write_text("keys: {file: keys}\n")
    assert load_settings({}, {}).settings == Settings()


@pytest.mark.parametrize("name", ["paceline.yaml~", ".paceline.yaml.swp", "paceline.yml"])
def test_next_to_the_settings_file_similar_names_are_left_alone(name: str) -> None:
    """Editors leave such copies; the file that is read is the one that is documented."""
    Path("paceline.yaml").write_text("server: {port: 9}\n")
    Path(name).write_text("server: {port: 8}\n")
    assert load_settings({}, {}).settings.server.port == 9


@pytest.fixture
def as_other_user() -> Iterator[None]:
    """Without the rights of root, which no mode keeps out."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65_534)
    yield
    os.seteuid(before)


@pytest.mark.parametrize(
    ("mode", "has_file", "reason"),
    [
        (0o600, True, "cannot be searched (Permission denied)"),
        (0o000, True, "cannot be searched (Permission denied)"),
        (0o600, False, "cannot be searched (Permission denied)"),
        (0o311, False, "cannot be listed (Permission denied)"),
    ],
)
def test_a_folder_that_may_have_a_settings_file_is_not_taken_for_an_empty_one(
    mode: int, has_file: bool, reason: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if has_file:
        Path("paceline.yaml").write_text("keys: {file: keys}\n")
    tmp_path.chmod(mode)
    request.getfixturevalue("as_other_user")
    message = refusal()
    assert reason in message
    assert "give the file with --config" in message


def test_a_settings_file_in_a_folder_that_cannot_be_listed_is_read(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    Path("paceline.yaml").write_text("server: {port: 9}\n")
    tmp_path.chmod(0o711)
    request.getfixturevalue("as_other_user")
    assert load_settings({}, {}).settings.server.port == 9


def test_a_settings_file_that_is_a_broken_link_is_not_a_missing_one() -> None:
    Path("paceline.yaml").symlink_to("unmounted/paceline.yaml")
    assert "paceline.yaml cannot be read" in refusal()


def test_a_folder_is_no_settings_file() -> None:
    Path("paceline.yaml").mkdir()
    assert "paceline.yaml cannot be read: Is a directory" in refusal()


def test_all_faults_of_all_sources_are_reported_at_once() -> None:
    message = refusal({"PACELINE_KEYS_FILE": "a", "PACELINE_CAPTURE__REDACT": ""}, "keys: {}\n")
    assert len(message.splitlines()) == 3


SECRETS = {
    "a mapping instead of a list": "replicas: {url: 'http://a:1', key: s3cret}",
    "a text instead of a list": "replicas: 'http://user:s3cret@a:1'",
    "a key in a list": "replicas: [s3cret]",
    "an unknown field": "replicas: [{url: 'http://a:1', key: s3cret}]",
    "a key as a number": "replicas: [{url: 'http://a:1', max_in_flight: s3cret}]",
    "a key as a dialect": "replicas: [{url: 'http://a:1', dialect: s3cret}]",
    "a list of keys": "replicas: [{url: 'http://a:1', key_file: [s3cret]}]",
    "a control character": 'replicas: [{url: "http://user:s3cret@a\\n:1"}]',
    "odd digits": "replicas: [{url: 'http://a:1', max_in_flight: '0_s3cret'}]",
    "arguments for vLLM": "engine: {vllm_args: '--api-key s3cret'}",
    "an argument for vLLM of the wrong type": "engine: {vllm_args: {--api-key: s3cret}}",
}


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_what_may_be_a_key_in_the_wrong_place_is_in_no_message(text: str) -> None:
    message = refusal(text=text)
    assert "s3cret" not in message
    assert "replicas" in message or "engine.vllm_args" in message


@pytest.mark.parametrize("text", ["a\n", "", "keys: {file: keys}\n"])
def test_a_pipe_is_read_to_its_end(text: str) -> None:
    read, write = os.pipe()
    os.write(write, text.encode())
    os.close(write)
    path = Path(f"/dev/fd/{read}")
    try:
        if text.startswith("keys"):
            assert load_settings({}, {}, path).settings.keys.file == Path("keys")
        else:
            with pytest.raises(ConfigError):
                load_settings({}, {}, path)
    finally:
        os.close(read)


@pytest.mark.parametrize("has_writer", [False, True])
def test_a_pipe_that_nobody_closes_is_refused_after_a_time_limit(
    has_writer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "_PIPE_S", 0.05)
    os.mkfifo("pipe")
    opened = os.open("pipe", os.O_RDWR) if has_writer else None
    with pytest.raises(ConfigError, match="its writer has not closed within"):
        load_settings({}, {}, Path("pipe"))
    if opened is not None:
        os.close(opened)


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_no_settings_file(name: str) -> None:
    with pytest.raises(ConfigError, match="it is not a file"):
        load_settings({}, {}, Path(name))


def test_a_settings_file_without_end_is_refused() -> None:
    with open("paceline.yaml", "wb") as file:
        file.truncate(2**40)
    assert "longer than the 1048576 bytes allowed" in refusal()
