"""Every setting that protects something, tried in every way and from every source of the table."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest
import yaml
from click.testing import CliRunner
from pydantic.fields import FieldInfo

from paceline.cli import main
from paceline.runtime.config.protection import PROTECTS
from paceline.runtime.config.protection_page import (
    BEGIN,
    END,
    FLAGS,
    IMPOSSIBLE,
    REFUSED,
    WAYS,
    protecting_fields,
    sources_of,
    with_table,
)
from paceline.runtime.config.sources import SETTING_KEYS, variable_of
from paceline.runtime.config.tree import ReplicaSettings

PAGE = Path(__file__).parents[3] / "docs" / "security.md"


OTHERS = {
    "server": frozenset(
        {"port", "admin_port", "probe_port", "workers", "lame_duck_s", "drain_timeout_s"}
    ),
    "engine": frozenset(
        {
            "model", "served_name", "aliases", "draft", "policy", "policy_parameters",
            "draft_length_max", "draft_length", "schedule", "reproducible_seeds", "compact_json",
            "replicas", "dtype",
            "max_model_len", "num_threads", "compile", "kv_cache_bytes", "kv_cache_dtype",
            "vllm_args", "start_timeout_s", "max_restart_delay_s", "log_folder",
        }
    ),
    "slo": frozenset({"time_per_output_token_ms", "max_pause_ms"}),
    "failures": frozenset(
        {
            "max_failure_fraction", "min_samples", "max_open_s", "replica_wait_s", "silence_s",
            "first_silence_s",
        }
    ),
    "fleet": frozenset(
        {
            "poll_period_s", "poll_timeout_s", "failures_before_down", "load_period_s",
            "dns_period_s", "warm_up", "warm_up_timeout_s",
        }
    ),
    "replicas": frozenset({"url", "dns", "name", "model", "dialect", "drafts"}),
}  # fmt: skip
"""Section → settings without which a server is slower, or serves something else, but is no more
open."""


def test_every_setting_is_classified_as_protecting_or_not() -> None:
    """A new setting has to be entered in `PROTECTS` or in `OTHERS`."""
    in_tree = {".".join(key) for key in SETTING_KEYS} - {"replicas"}
    in_tree |= {f"replicas.{name}" for name in ReplicaSettings.model_fields}
    others = {f"{section}.{name}" for section, names in OTHERS.items() for name in names}
    assert in_tree == PROTECTS.keys() | others
    assert not PROTECTS.keys() & others


def test_the_table_of_the_page_is_the_generated_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert with_table(text) == text


def cells() -> Iterator[tuple[str, str, str, str]]:
    """Setting, way, source and what the page says, of every cell of the page."""
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    head, _, *rows = [line for line in table.splitlines() if line.startswith("|")]
    columns = [cell.strip() for cell in head.strip("|").split("|")]
    for row in rows:
        values = dict(zip(columns, (c.strip() for c in row.strip("|").split("|")), strict=True))
        for way in WAYS:
            for source in values["given in"].split(", "):
                yield values["setting"].strip("`"), way, source, values[way]


def tried() -> Iterator[tuple[str, str, str, str]]:
    """Setting, way, source and the form in which it is wrong, of every cell that says refused."""
    for setting, way, source, says in cells():
        if says == REFUSED:
            for form in UNREADABLE[setting] if way == "unreadable" else ("",):
                yield setting, way, source, form


FIELDS = dict(protecting_fields())


def kinds(annotation: Any) -> frozenset[type]:
    """The types that a field accepts."""
    if get_origin(annotation) in (Union, types.UnionType):
        return frozenset().union(*(kinds(one) for one in get_args(annotation)))
    return frozenset({get_origin(annotation) or annotation})


def wrong_type(field: FieldInfo) -> Any:
    accepted = kinds(field.annotation)
    if frozenset in accepted:
        return "a text"
    return ["a", "list"] if accepted & {str, Path} else "many"


def right_value(field: FieldInfo) -> Any:
    accepted = kinds(field.annotation)
    if frozenset in accepted:
        return ["memory"]
    if accepted & {str, Path}:
        return "name"
    return True if bool in accepted else 1


_HOSTS = ("a b", "a..b", "192.0.2.1", "127.0.0.1:80")
_KEY_FILES = ("missing", "folder", "pipe", "broken", "latin-1", "missing/keys", "link", "/dev/null")
UNREADABLE = {
    "server.host": _HOSTS,
    "server.admin_host": _HOSTS,
    "server.probe_host": _HOSTS,
    "keys.file": _KEY_FILES,
    "keys.admin_key_file": _KEY_FILES,
    "keys.salt_file": ("missing/salt", "folder", "pipe", "broken", "empty", "link", "/dev/null"),
    "keys.audit_file": ("folder", "missing/audit", "pipe", "empty/below"),
    "capture.folder": ("empty", "empty/below", "pipe", "link/below"),
    "capture.redact": ("os:nope", "no_such_module:f", "os", "os:sep", "os:"),
    "replicas.key_file": ("missing", "folder", "pipe", "latin-1", "link", "/dev/zero"),
}
"""Names of what cannot be used, by what `prepare` puts there."""


def prepare() -> None:
    """What the forms of `UNREADABLE` name, in the working folder."""
    Path("empty").touch()
    Path("keys").touch()
    Path("folder").mkdir()
    os.mkfifo("pipe")
    Path("broken").write_text("{broken\n")
    Path("latin-1").write_bytes(b"\xe4\n")
    Path("link").symlink_to("unmounted")


def in_file(setting: str, value: Any) -> str:
    section, _, name = setting.partition(".")
    if section == "replicas":
        return yaml.safe_dump({"replicas": [{"url": "http://127.0.0.1:9", name: value}]})
    return yaml.safe_dump({section: {name: value}})


def repeated_in_file(setting: str, field: FieldInfo) -> str:
    section, _, name = setting.partition(".")
    value = json.dumps(right_value(field))
    if section == "replicas":
        return f"replicas: [{{url: 'http://127.0.0.1:9', {name}: {value}, {name}: {value}}}]\n"
    return f"{section}:\n  {name}: {value}\n  {name}: {value}\n"


def given(
    setting: str, way: str, source: str, form: str
) -> tuple[str, dict[str, str], list[str], str]:
    """The text of the file, the environment, the flags, and what the refusal must name."""
    field, (section, _, name) = FIELDS[setting], setting.partition(".")
    variable, flag = variable_of((section, name)), FLAGS.get(setting, "")
    in_tree = f"replicas.0.{name}" if section == "replicas" else setting
    value = {
        "empty": None if source == "file" else "",
        # Whatever a flag says is a text; this one is none that the setting could be.
        "of the wrong type": "127.0.0.1\n" if source == "flag" else wrong_type(field),
        "unreadable": form,
    }.get(way, right_value(field))
    text = value if isinstance(value, str) else json.dumps(value)
    if way == "unreadable":
        named = f"server.{name}" if section == "server" else form
        named = "replicas.0: key_file" if section == "replicas" else named
    elif way == "repeated":
        named = {"file": f"the key '{name}' is repeated", "flag": f"{flag} is given 2 times"}.get(
            source, f"{variable.lower()} is not a setting"
        )
    elif way == "misspelt":
        wrong = variable.replace("__", "_")
        named = {"file": f"{in_tree}x is not a setting", "flag": f"No such option '{flag}x'"}.get(
            source, f"{wrong} is not a setting"
        )
    elif source == "flag" and way == "empty":
        named = f"{flag} is empty"
    else:
        named = f"{in_tree} is "
    if source == "file":
        if way == "repeated":
            return repeated_in_file(setting, field), {}, [], named
        return in_file(f"{setting}x" if way == "misspelt" else setting, value), {}, [], named
    if source == "environment":
        if way == "repeated":
            return "", {variable: text, variable.lower(): text}, [], named
        given_name = variable.replace("__", "_") if way == "misspelt" else variable
        return "", {given_name: text}, [], named
    if way == "repeated":
        return "", {}, [flag, text, flag, text], named
    return "", {}, [f"{flag}x" if way == "misspelt" else flag, text], named


def test_every_cell_of_the_page_says_whether_it_is_refused() -> None:
    for setting, way, source, says in cells():
        assert source in sources_of(setting)
        assert says == (
            IMPOSSIBLE if way == "unreadable" and setting not in UNREADABLE else REFUSED
        )


@pytest.mark.parametrize(("setting", "way", "source", "form"), list(tried()))
def test_what_the_table_says_is_refused_is_refused_by_name(
    setting: str, way: str, source: str, form: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    prepare()
    text, environ, flags, named = given(setting, way, source, form)
    if setting == "keys.salt_file":
        environ["PACELINE_KEYS__FILE"] = "keys"
    if setting == "server.admin_host":
        environ["PACELINE_KEYS__ADMIN_KEY_FILE"] = "keys"
    if setting == "server.probe_host":
        environ["PACELINE_SERVER__PROBE_PORT"] = "0"
    if setting != "capture.folder" and setting.startswith("capture."):
        environ["PACELINE_CAPTURE__FOLDER"] = "captured"
    environ |= {"PACELINE_SERVER__ADMIN_PORT": "0"}
    if not setting.startswith("replicas."):
        text += "" if "replicas" in text else "replicas: [{url: 'http://127.0.0.1:9'}]\n"
    Path("paceline.yaml").write_text(text)
    before = {path.name for path in tmp_path.iterdir()}
    ends = ["--check", "--port", "0", "--replicas", "0"]
    result = CliRunner().invoke(main, ["serve", *ends, *flags], env=environ)
    assert result.exit_code == 2, result.output
    assert named in result.output
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_start_without_any_of_these_faults_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the cases above are refused for their fault only."""
    monkeypatch.chdir(tmp_path)
    Path("keys").write_text("")
    Path("paceline.yaml").write_text(
        "replicas: [{url: 'http://127.0.0.1:9'}]\nkeys: {file: keys, audit_file: audit}\n"
        "capture: {folder: captured, redact: 'os:getcwd'}\n"
    )
    arguments = ["--check", "--port", "0", "--replicas", "0"]
    environ = {"PACELINE_SERVER__ADMIN_PORT": "0"}
    result = CliRunner().invoke(main, ["serve", *arguments], env=environ)
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {"keys", "paceline.yaml"}
