"""The costs of an engine's steps are measured at its start, which does not change its answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts

from paceline.demo import draft_path, target_path
from paceline.foundation.capacity.cost_table import CostTable

pytestmark = pytest.mark.engine

DRAFT_MODEL = {"method": "draft_model", "model": str(draft_path()), "num_speculative_tokens": 3}
NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 4,
}
GREEDY = {"temperature": 0.0, "max_tokens": 32, "ignore_eos": True}


def engine(speculative: dict[str, Any], costs_folder: str, **arguments: Any) -> EngineHost:
    """Prompts with the same beginning share cache blocks, which is vLLM's default."""
    llm = {
        "model": str(target_path()),
        "dtype": "float32",
        "max_model_len": 2048,
        "max_num_seqs": 4,
        "speculative_config": speculative,
        **arguments,
    }
    policy = {"policy": "fixed", "draft_length": 3, "costs_folder": costs_folder}
    return EngineHost(llm, policy=policy)


def served(host: EngineHost) -> tuple[list[list[int]], dict[str, Any]]:
    """Answers to the same prompts twice, and vLLM's counts of accepted drafts."""
    prompts = host.tokenize(stdlib_prompts(4))
    answers = [host.generate(prompts, **GREEDY) for _ in range(2)]
    return [one["token_ids"] for wave in answers for one in wave], host.metrics()


def stored_table(folder: Path) -> CostTable:
    [file] = folder.iterdir()
    return msgspec.convert(json.loads(file.read_text())["table"], CostTable)


def test_costs_are_measured_once_and_what_is_served_stays_the_same(tmp_path: Path) -> None:
    """Answers and acceptance equal those of an engine that measures none.

    The second engine finds the table. On a busy machine the plan may be the coarser one, checks may
    be fewer, and they may reject the table.
    """
    with engine(DRAFT_MODEL, "") as host:
        expected = served(host)
        assert "Costs:" not in host.log()
    with engine(DRAFT_MODEL, str(tmp_path)) as host:
        assert re.search(r"Costs: measured \d+ kinds of steps in \d+\.\d s", host.log())
        assert served(host) == expected
    table = stored_table(tmp_path)
    # The coarser plan has every second size and fewer lengths.
    assert (table.sizes[:2], table.lengths) in [((1, 2), (0, 1, 2, 3)), ((1, 4), (0, 1, 3))]
    assert table.context_tokens == 256
    assert all(seconds > 0.0 for row in table.verify_s for seconds in row)
    with engine(DRAFT_MODEL, str(tmp_path)) as host:
        today = r"\d{4}-\d\d-\d\d"
        assert re.search(
            rf"Costs: (those stored on {today} (hold: [1-5] checks|no longer|are kept))",
            host.log(),
        )
        assert served(host) == expected


def test_an_engine_with_an_n_gram_drafter_is_measured(tmp_path: Path) -> None:
    with engine(NGRAM, str(tmp_path)) as host:
        assert "kinds of steps in" in host.log()
        answers, _ = served(host)
    assert [len(answer) for answer in answers] == [32] * 8
    assert stored_table(tmp_path).lengths == (0, 1, 2, 3)


def test_an_engine_that_cannot_be_measured_says_why_and_serves(tmp_path: Path) -> None:
    folder = tmp_path / "costs"
    with engine({"method": "suffix", "num_speculative_tokens": 3}, str(folder)) as host:
        answers, _ = served(host)
        log = host.log()
    assert [len(answer) for answer in answers] == [32] * 8
    assert "Costs: learned while serving, because the drafter is suffix" in log
    assert not folder.exists()
