"""The paceline.yaml of a cell, from the user's own and the values of the cell."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from paceline.runtime.config import Settings
from paceline.workbench.tune.configuration import (
    argument,
    cell_document,
    load_base,
    num_gpus,
    render_yaml,
    server_document,
)
from paceline.workbench.tune.values import Cell, LiveSetting, RestartConfig, TuneError

BASE = {
    "server": {"port": 9000},
    "engine": {
        "model": "m",
        "policy": "schedule",
        "schedule": [[1, 4, 3]],
        "vllm_args": ["--max-num-seqs", "16", "--block-size=32", "--enforce-eager"],
    },
}


def restart(*settings: tuple[str, object]) -> RestartConfig:
    return RestartConfig(settings)  # type: ignore[arg-type]


def test_settings_and_arguments_of_vllm_are_replaced_and_the_rest_is_kept() -> None:
    chosen = restart(
        ("engine.draft", "ngram"), ("--max-num-seqs", 64), ("--block-size", 16), ("--new", True)
    )
    document = server_document(BASE, chosen, 8)
    assert document["server"] == {"port": 9000}
    assert document["engine"]["draft"] == "ngram"
    assert document["engine"]["vllm_args"] == [
        *("--enforce-eager", "--max-num-seqs", "64", "--block-size", "16", "--new")
    ]
    assert document["admission"] == {"max_in_flight": 8}
    assert BASE["engine"]["vllm_args"] == [
        *("--max-num-seqs", "16", "--block-size=32", "--enforce-eager")
    ]


def test_false_leaves_an_argument_out() -> None:
    document = server_document(BASE, restart(("--enforce-eager", False)), 8)
    assert "--enforce-eager" not in document["engine"]["vllm_args"]


def test_the_limit_is_spread_over_the_replicas() -> None:
    document = server_document(BASE, restart(("engine.replicas", 3)), 8)
    assert document["admission"] == {"max_in_flight": 3}


def test_a_fixed_draft_length_replaces_the_policy_and_its_parameters() -> None:
    held = cell_document(BASE, Cell(restart(), LiveSetting(2, 8)))
    assert held["engine"]["policy"] == "fixed"
    assert held["engine"]["draft_length"] == 2
    assert "schedule" not in held["engine"]
    kept = cell_document(BASE, Cell(restart(), LiveSetting(None, 8)))
    assert kept["engine"]["policy"] == "schedule"


def test_the_written_file_is_read_as_it_was_meant() -> None:
    document = cell_document(BASE, Cell(restart(("--max-num-seqs", 64)), LiveSetting(2, 8)))
    text = render_yaml(document, ["A comment."])
    assert text.startswith("# A comment.\n")
    settings = Settings.model_validate(yaml.safe_load(text))
    assert settings.engine.draft_length == 2
    assert settings.admission.max_in_flight == 8


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ((("engine.drat", "x"),), "engine.drat=x is not allowed: engine.drat: Extra inputs"),
        ((("engine.replicas", 0.5),), "is not allowed: engine.replicas"),
        ((("draft", "x"),), "restart.draft is no setting; name one of paceline.yaml"),
    ],
)
def test_wrong_values_are_refused_with_the_reason(
    settings: tuple[tuple[str, object], ...], message: str
) -> None:
    with pytest.raises(TuneError) as error:
        server_document(BASE, restart(*settings), 8)
    assert message in str(error.value)


def test_the_base_is_the_file_with_the_model_replaced(tmp_path: Path) -> None:
    file = tmp_path / "paceline.yaml"
    file.write_text("engine: {model: a, draft: none}\n")
    assert load_base(file, "b") == {"engine": {"model": "b", "draft": "none"}}
    assert load_base(None, None) == {}
    file.write_text("- 1\n")
    with pytest.raises(TuneError, match="contains a list; it must contain a mapping"):
        load_base(file, None)
    file.write_text("engine: {drat: none}\n")
    with pytest.raises(TuneError, match=r"not allowed: engine\.drat"):
        load_base(file, None)


def test_a_configuration_pays_for_the_gpus_of_all_replicas() -> None:
    args = ["--tensor-parallel-size=2", "--pipeline-parallel-size", "3"]
    assert num_gpus({"engine": {"replicas": 2, "vllm_args": args}}) == 12
    assert num_gpus({}) == 1


def test_an_argument_is_found_in_both_forms() -> None:
    assert argument(("--a", "1", "--b=2"), "--a") == "1"
    assert argument(("--a",), "--a") is None
    assert argument((), "--a") is None
