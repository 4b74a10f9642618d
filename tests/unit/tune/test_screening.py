"""The planner's part: what does not fit is dropped, and predictions order what does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.foundation.planning.values import Load, Slo
from paceline.runtime.config import Settings
from paceline.workbench.tune.screening import ScreeningQuestion, screen
from paceline.workbench.tune.values import Cell, LiveSetting, RestartConfig

MODEL = "Qwen/Qwen2.5-7B-Instruct"
LIVES = tuple(LiveSetting(length, limit) for length in (None, 0) for limit in (1, 16, 512))
QUESTION = ScreeningQuestion("l4", Load(prompt_tokens=500, output_tokens=200), Slo(tpot_ms=200.0))


def served(model: str = MODEL, *vllm_args: str) -> Settings:
    engine = {"model": model, "draft": "none", "max_model_len": 4096, "vllm_args": vllm_args}
    return Settings.model_validate({"engine": engine})


def config(name: str) -> RestartConfig:
    return RestartConfig((("name", name),))


def test_a_configuration_that_does_not_fit_is_dropped_with_the_reason() -> None:
    small, large = config("small"), config("large")
    settings = {small: served(), large: served("Qwen/Qwen2.5-72B-Instruct")}
    screening = screen(dict.fromkeys(settings, LIVES), settings, QUESTION)
    assert set(screening.settings) == {small}
    assert "does not fit on l4" in screening.dropped[large]
    assert "GiB more" in screening.dropped[large]


def test_more_requests_in_flight_are_expected_to_serve_more_until_the_batch_is_full() -> None:
    small = config("small")
    settings = {small: served(MODEL, "--max-num-seqs", "16")}
    screening = screen({small: LIVES}, settings, QUESTION)
    rates = [screening.predicted[Cell(small, LiveSetting(None, n))] for n in (1, 16, 512)]
    assert rates[1] > 4 * rates[0]
    assert rates[2] == pytest.approx(0.3 * rates[1])


def test_missing_the_objective_lowers_the_expectation() -> None:
    small = config("small")
    strict = ScreeningQuestion("l4", QUESTION.load, Slo(tpot_ms=1.0))
    cell = Cell(small, LiveSetting(None, 16))
    loose = screen({small: LIVES}, {small: served()}, QUESTION).predicted[cell]
    assert screen({small: LIVES}, {small: served()}, strict).predicted[cell] == pytest.approx(
        0.3 * loose
    )


def test_a_model_that_the_planner_does_not_know_is_kept_with_a_note(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["NewModel"]}))
    unknown = config("unknown")
    screening = screen({unknown: LIVES}, {unknown: served(str(tmp_path))}, QUESTION)
    assert set(screening.settings) == {unknown}
    assert screening.predicted == {}
    assert "the planner has no prediction" in screening.notes[0]
