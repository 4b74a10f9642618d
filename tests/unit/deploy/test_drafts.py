"""A deployment drafts with what costs no slots, or with a draft model that wins by its figures."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from unit.deploy.rendering import TIERS, of_kind, render


def pools(files: dict[str, str]) -> list[dict[str, Any]]:
    return list(json.loads(files["deployment.json"])["pools"])


@pytest.mark.parametrize("tier", TIERS)
def test_no_tier_loses_to_itself_without_drafts(tier: str) -> None:
    drafting, without = render("--tier", tier), render("--tier", tier, "--draft", "none")
    for one, other in zip(pools(drafting), pools(without), strict=True):
        assert one["slots_per_replica"] == other["slots_per_replica"]
        key = "output_tokens_per_s_per_replica"
        assert one[key] == other[key]
        assert one["drafts"]["acceptance"] is None
    assert "Its acceptance on your traffic is unknown" in drafting["README.md"]


@pytest.mark.parametrize("tier", ["mid-market", "enterprise"])
def test_the_manifests_name_the_lengths_that_get_graphs(tier: str) -> None:
    found = 0
    for name, text in render("--tier", tier).items():
        if not name.startswith("engine-"):
            continue
        for document in yaml.safe_load_all(text):
            for container in _containers(document):
                words = container.get("args", [])
                if "--speculative-config" in words:
                    config = json.loads(words[words.index("--speculative-config") + 1])
                    table = config["num_speculative_tokens_per_batch_size"]
                    assert [length for _, _, length in table] == [7, 3, 1, 0]
                    found += 1
    assert found >= 1


def _containers(document: dict[str, Any]) -> list[dict[str, Any]]:
    pod = document.get("spec", {}).get("template", {})
    return list(pod.get("spec", {}).get("containers", [])) if isinstance(pod, dict) else []


@pytest.mark.parametrize(
    ("acceptance", "draft"), [("0.95", "Qwen/Qwen3-0.6B-FP8"), ("0.5", "ngram")]
)
def test_a_draft_model_is_deployed_where_it_wins(acceptance: str, draft: str) -> None:
    files = render("--tier", "startup", "--acceptance", acceptance)
    settings = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    assert yaml.safe_load(settings)["engine"]["draft"] == draft
    (pool,) = pools(files)
    assert pool["drafts"]["name"] == draft
    rate = pool["output_tokens_per_s_per_replica"]
    assert rate >= pool["drafts"]["output_tokens_per_s_without"]


def test_a_draft_model_that_is_named_is_kept_and_its_cost_is_said() -> None:
    files = render("--tier", "startup", "--draft", "Qwen/Qwen3-0.6B-FP8")
    (pool,) = pools(files)
    note = pool["drafts"]
    assert note["name"] == "Qwen/Qwen3-0.6B-FP8"
    assert note["slots_without"] > pool["slots_per_replica"]
    assert f"Without it a replica holds {note['slots_without']} requests" in files["README.md"]
