"""The catalogue has sources and dates, finds names, and takes the entries of users."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.quantized_config import read_weight_format
from paceline.foundation.compatibility.draft_pairs import draft_pairs
from paceline.foundation.planning.sources.catalogue import load_catalogue
from paceline.foundation.planning.sources.this_machine import Machine
from paceline.foundation.planning.values import PlanError
from unit.plan.planning import plan_json

DATA = resources.files("paceline.foundation.planning") / "data"
HARDWARE: dict[str, Any] = json.loads((DATA / "gpus.json").read_text())
MACHINE = Machine(4, 16 * 1024**3, frozenset())


def test_every_entry_names_its_source_and_date() -> None:
    for entry in [*HARDWARE["gpus"], *HARDWARE["cpus"]]:
        assert entry["source"], entry["name"]
        assert entry["source_date"], entry["name"]
        for offer in entry.get("offers", ()):
            assert offer["source"], entry["name"]
            assert offer["date"], entry["name"]
    for entry in HARDWARE["cpus"]:
        assert entry["price_source"], entry["name"]
        assert entry["price_date"], entry["name"]


def test_every_known_model_can_be_read() -> None:
    catalogue = load_catalogue()
    names = catalogue.model_names()
    assert len(names) >= 80
    for name in names:
        config = catalogue.model_config(name)
        assert config is not None
        shape = read_model_config(config)
        read_weight_format(config, shape.dtype)


def test_most_known_draft_models_are_in_the_table() -> None:
    """So that `--draft auto` counts their weights and their KV cache."""
    catalogue = load_catalogue()
    missing = {pair.draft for pair in draft_pairs() if catalogue.model_config(pair.draft) is None}
    assert missing == set()


def test_a_name_is_found_without_its_organisation_and_in_any_case() -> None:
    catalogue = load_catalogue()
    full = catalogue.model_config("Qwen/Qwen3-8B")
    assert catalogue.model_config("qwen3-8b") == full
    assert catalogue.model_config("QWEN/qwen3-8B") == full
    assert catalogue.model_config("someone/Qwen3-8B") is None


def test_aliases_name_the_same_gpu() -> None:
    catalogue = load_catalogue()
    assert catalogue.find("H100-SXM", MACHINE, None) == catalogue.find("h100", MACHINE, None)


def test_the_users_price_replaces_the_list_price() -> None:
    entry = load_catalogue().find("h100", MACHINE, 1.5)
    assert entry.hardware.usd_per_hour == 1.5
    assert entry.price_source == "given with --usd-per-gpu-hour"


def test_a_gpu_without_a_price_has_no_cost(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, "Qwen/Qwen3-8B", "--gpu", "rtx-3090", "--num-gpus", "2")
    assert plan["cost"]["usd_per_million_output_tokens"] is None
    assert plan["hardware"]["usd_per_hour"] is None


def test_a_cpu_machine_scales_with_its_cores() -> None:
    catalogue = load_catalogue()
    four = catalogue.find("cpu", MACHINE, None).hardware
    eight = catalogue.find("cpu", Machine(8, 1, frozenset()), None).hardware
    assert eight.bandwidth_bytes_per_s == 2 * four.bandwidth_bytes_per_s
    assert eight.usd_per_hour == 2 * four.usd_per_hour


def test_a_users_file_changes_one_figure_and_adds_a_model(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    config = load_catalogue().model_config("Qwen/Qwen3-8B")
    file.write_text(
        json.dumps(
            {
                "gpus": [{"name": "h100", "usd_per_hour": 2.0}],
                "models": [{"names": ["mine/model"], "config": config}],
            }
        )
    )
    plan = plan_json(tmp_path, "mine/model", "--gpu", "h100", "--catalogue", str(file))
    assert plan["hardware"]["usd_per_hour"] == 2.0
    assert plan["hardware"]["memory_bytes"] == 81090 * 1024**2


def test_a_users_file_with_unknown_keys_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"gpu": []}')
    with pytest.raises(PlanError, match=r"has the keys gpu; allowed: gpus, cpus, models"):
        load_catalogue(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"gpus": [{"name": "new", "memory_mib": 1}]}', r"lacks the field 'link'"),
        ('{"models": [{"names": ["a/b"]}]}', r"lacks the field 'config'"),
        ('{"models": [{"names": ["a/b"], "config": 3}]}', "is unusable"),
        ("[1", "is unusable"),
    ],
)
def test_a_users_file_that_cannot_be_read_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(text)
    with pytest.raises(PlanError, match=message):
        load_catalogue(file)
