"""Every setting that protects something, tried in every way and from every source of the table."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import pytest
import yaml
from click.testing import CliRunner
from pydantic.fields import FieldInfo

from paceline.cli import main
from paceline.config.protection import OTHERS, PROTECTS
from paceline.config.protection_page import (
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
from paceline.config.sources import SETTING_KEYS, variable_of
from paceline.config.tree import ReplicaSettings

PAGE = Path(__file__).parents[3] / "docs" / "security.md"


def test_every_setting_is_classified_as_protecting_or_not() -> None:
    """A new setting has to be entered in one of the two tables of `protection`."""
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


UNREADABLE = {
    "server.host": "a b",
    "server.admin_host": "a..b",
    "capture.redact": "os:nope",
    "capture.folder": "file/below-a-file",
    "keys.salt_file": "missing/salt",
    "keys.audit_file": ".",
}
"""Values that name nothing that can be used; the others name a file that is missing."""


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
    return f"{section}:\n  {name}: {value}\n{section}:\n  {name}: {value}\n"


def given(setting: str, way: str, source: str) -> tuple[str, dict[str, str], list[str]] | None:
    """The text of the file, the environment and the flags; None where it cannot be written."""
    field, (section, _, name) = FIELDS[setting], setting.partition(".")
    variable, flag = variable_of((section, name)), FLAGS.get(setting, "")
    right = right_value(field)
    value = {
        "empty": None if source == "file" else "",
        "of the wrong type": wrong_type(field),
        "unreadable": UNREADABLE.get(setting, "missing"),
    }.get(way, right)
    text = value if isinstance(value, str) else json.dumps(value)
    if source == "file":
        if way == "repeated":
            return repeated_in_file(setting, field), {}, []
        misspelt = f"{setting}x" if way == "misspelt" else setting
        return in_file(misspelt, value), {}, []
    if source == "environment":
        if way == "repeated":
            return "", {variable: text, variable.lower(): text}, []
        return "", {variable.replace("__", "_") if way == "misspelt" else variable: text}, []
    if way == "of the wrong type":
        return None  # whatever a flag says is a text
    if way == "repeated":
        return "", {}, [flag, text, flag, text]
    return "", {}, [f"{flag}x" if way == "misspelt" else flag, text]


@pytest.mark.parametrize(("setting", "way", "source", "says"), list(cells()))
def test_what_happens_to_a_protecting_setting_is_what_the_table_says(
    setting: str, way: str, source: str, says: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    assert source in sources_of(setting)
    if says == IMPOSSIBLE:
        return
    assert says == REFUSED
    case = given(setting, way, source)
    if case is None:
        return
    text, environ, flags = case
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("keys").write_text("")
    if setting == "keys.salt_file":
        environ["PACELINE_KEYS__FILE"] = "keys"
    if setting != "capture.folder" and setting.startswith("capture."):
        environ["PACELINE_CAPTURE__FOLDER"] = "captured"
    environ |= {"PACELINE_SERVER__ADMIN_PORT": "0"}
    if not setting.startswith("replicas."):
        text += "" if "replicas" in text else "replicas: [{url: 'http://127.0.0.1:9'}]\n"
    Path("paceline.yaml").write_text(text)
    ends = ["--check", "--port", "0", "--replicas", "0"]
    result = CliRunner().invoke(main, ["serve", *ends, *flags], env=environ)
    assert result.exit_code == 2, result.output
    if way != "unreadable":
        named = (setting.rpartition(".")[2], *flags[:1], setting.partition(".")[0])
        assert any(name in result.output.lower() for name in named), result.output
    assert {path.name for path in tmp_path.iterdir()} == {"file", "keys", "paceline.yaml"}


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
