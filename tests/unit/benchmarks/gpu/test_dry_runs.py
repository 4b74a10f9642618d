"""The GPU experiments in their dry runs, and how they compare arms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.gpu import gateway_streams, governor_without_weights
from benchmarks.gpu.phases import Turn
from benchmarks.gpu.shapes import PAIRS, SHAPES, write_model


def test_the_governor_without_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """All arms in all phases, in the policy simulator; every policy is compared."""
    governor_without_weights.main(["--dry-run"])
    rows = [line for line in capsys.readouterr().out.splitlines() if "n = 2" in line]
    assert len(rows) == len(governor_without_weights.TOY_PHASES) * 3
    goodput = [float(row.split("goodput")[1].split()[0]) for row in rows if "goodput" in row]
    assert len(goodput) == 4
    assert min(goodput) > 0.85  # within 60 steps of each phase, probes and shift included


def test_the_best_length_is_chosen_on_the_other_repeats() -> None:
    """K=1 is best in the first repeat, K=0 in the second, so each is scored against the other."""
    rates = {("K=0", 0): 10, ("K=1", 0): 20, ("goodput", 0): 20}
    rates |= {("K=0", 1): 40, ("K=1", 1): 30, ("goodput", 1): 30}
    turns = [Turn(arm, "p", repeat, rate, 1.0, ()) for (arm, repeat), rate in rates.items()]
    [row] = governor_without_weights.compare(turns, ["goodput"])
    assert (row["lowest"], row["highest"], row["n"]) == (1.0, 2.0, 2)
    assert row["best"] == "K=0"


def test_the_gateway_in_front_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan runs, with mock servers."""
    gateway_streams.main(["--dry-run"])
    assert "8 streams: gateway, tpot_p50: " in capsys.readouterr().out


@pytest.mark.parametrize("name", [*PAIRS, *PAIRS.values()])
def test_a_shape_is_a_model_folder_without_weights(tmp_path: Path, name: str) -> None:
    config = json.loads((write_model(tmp_path / name, SHAPES[name]) / "config.json").read_text())
    assert config["hidden_size"] % config["num_attention_heads"] == 0
    assert config["num_attention_heads"] % config["num_key_value_heads"] == 0
