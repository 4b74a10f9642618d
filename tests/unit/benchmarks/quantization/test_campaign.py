"""The steps of a model, with engines that answer at a known rate; what is there is not repeated."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quantization import campaign as module
from benchmarks.quantization.campaign import Campaign, Settings
from benchmarks.quantization.engines import EngineError
from benchmarks.quantization.summary import summarize
from benchmarks.quantization.variants import with_baselines
from paceline.foundation.quantized.compression import quantization_config
from paceline.foundation.quantized.schemes import SCHEMES

SECONDS = {"float32": 2.0, "bfloat16": 4.0, "control": 2.0, "w8a8": 1.0}
KERNELS = {"w8a8": "CPUInt8ScaledMMLinearKernel"}


FAILING: set[str] = set()
"""Engines that end at the first turn."""
ASKED: dict[str, list[tuple[int, int]]] = {}
"""By engine: prompts and tokens of each request to generate."""


class FakeEngine:
    """Takes the seconds of its variant for each request; half of them with drafts."""

    def __init__(self, name: str) -> None:
        self._name = name
        kernel = KERNELS.get(name.partition("+")[0], "UnquantizedLinearMethod")
        self.started = {
            "kernels": {kernel: 24}, "kv_cache_dtype": "float32", "kv_cache_tokens": 9,
            "modified_by": [],
        }  # fmt: skip

    def ask(self, op: str, **given: Any) -> dict[str, Any]:
        if self._name in FAILING and op == "generate" and len(given["prompts"]) == 2:
            raise EngineError("RuntimeError: it ended", "log", self._name)
        if op == "generate":
            ASKED.setdefault(self._name, []).append((len(given["prompts"]), given["num_tokens"]))
        if op == "likelihoods":
            return {"rows": [{"nats": 1.0, "tokens": 2, "first": 1} for _ in given["pairs"]]}
        if op == "profile":
            return {"seconds": 1.0, "operators_s": 1.0, "operators": []}
        seconds = SECONDS[self._name.partition("+")[0]] / (2 if "+" in self._name else 1)
        tokens = list(range(given["num_tokens"]))
        one = {"tokens": tokens, "first_s": 0.1, "seconds": seconds, "steps": len(tokens)}
        return {"requests": [one for _ in given["prompts"]]}

    def memory_bytes(self) -> int:
        return 1


@pytest.fixture
def compiled() -> list[list[str]]:
    """Of the engines that were alive together, those that compile."""
    return []


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch, compiled: list[list[str]]) -> list[list[str]]:
    """The engines that were alive together, in the order of their starts."""
    started: list[list[str]] = []
    ASKED.clear()

    @contextlib.contextmanager
    def running(arguments: Mapping[str, Any], logs: Path) -> Iterator[dict[str, FakeEngine]]:
        started.append(list(arguments))
        names = [name for name, given in arguments.items() if not given["enforce_eager"]]
        compiled.extend([names] if names else [])
        if "nvfp4" in arguments:
            raise EngineError("ValueError: no kernel", "log")
        yield {name: FakeEngine(name) for name in arguments}

    def make(variant: Any, model: Path, out: Path, calibration: Path) -> dict[str, Any]:
        out.mkdir(parents=True)
        config = {"quantization_config": quantization_config(SCHEMES[variant.scheme], None)}
        (out / "config.json").write_text(json.dumps(config))
        return {"scheme": variant.scheme, "backend": variant.backend}

    monkeypatch.setattr(module, "running_engines", running)
    monkeypatch.setattr(module, "make_folder", make)
    return started


def run(
    tmp_path: Path,
    document: dict[str, Any],
    rounds: int = 3,
    *,
    compiles: bool = False,
    only_loaded: tuple[str, ...] = (),
) -> None:
    model = tmp_path / "m"
    model.mkdir(parents=True, exist_ok=True)
    (model / "config.json").write_text("{}")
    settings = Settings(
        models=("m",), variants=("w8a8", "nvfp4"), drafters=("ngram",), draft_length=4,
        rounds=rounds, turn_prompts=2, num_tokens=4, num_answers=2, num_greedy=1,
        profiled_tokens=4, seed=0, compiles=compiles, only_loaded=only_loaded,
    )  # fmt: skip
    campaign = Campaign(
        model=model, draft=tmp_path, settings=settings, pairs=[[[1], [2]], [[3], [4]]],
        calibration=tmp_path / "c", work=tmp_path / "work", document=document, save=lambda: None,
    )  # fmt: skip
    variants = with_baselines(settings.variants)
    campaign.make(variants)
    campaign.load(variants)
    campaign.measure(variants, "turns")
    campaign.measure_products()
    campaign.profile()


def begin() -> dict[str, Any]:
    kinds = (
        "made", "loads", "batches", "starts", "turns", "products", "profiles", "failures",
    )  # fmt: skip
    return {**{kind: [] for kind in kinds}, "settings": {"drafters": ["ngram"]}}


def test_the_steps_give_ratios_products_and_refusals(
    engines: list[list[str]], tmp_path: Path
) -> None:
    document = begin()
    run(tmp_path, document)
    summary = summarize(document, "m")
    assert (summary["baseline"], summary["best"]) == ("float32", "w8a8")
    assert summary["rows"]["w8a8"]["ratio"] == 2.0
    assert summary["rows"]["w8a8"]["n"] == 3
    assert [row["both_ratio"] for row in summary["products"]] == [4.0]
    assert [one["variant"] for one in document["profiles"]] == ["float32", "w8a8"]
    together = ["float32", "bfloat16", "control", "w8a8"]
    assert together in engines  # what vLLM refuses is not started again
    assert {turn["position"] for turn in document["turns"] if turn["variant"] == "w8a8"} != {0}


def test_compiled_engines_give_the_speed_and_eager_ones_the_quality(
    engines: list[list[str]], compiled: list[list[str]], tmp_path: Path
) -> None:
    document = begin()
    run(tmp_path, document, compiles=True)
    turns = ["float32", "bfloat16", "control", "w8a8"]
    products = ["float32", "float32+ngram", "w8a8", "w8a8+ngram", "control"]
    assert [sorted(names) for names in compiled] == [
        sorted(turns), sorted(products), ["float32"], ["w8a8"]
    ]  # fmt: skip
    assert [one["variant"] for one in document["starts"] if one["kind"] == "turns"] == turns
    compiled.clear()
    run(tmp_path / "eager", begin())
    assert compiled == []


def test_a_variant_that_is_only_loaded_has_quality_and_no_speed(
    engines: list[list[str]], tmp_path: Path
) -> None:
    document = begin()
    run(tmp_path, document, only_loaded=("float32",))
    summary = summarize(document, "m")
    assert summary["baseline"] == "bfloat16"
    assert "perplexity" in summary["rows"]["float32"]
    assert "ratio" not in summary["rows"]["float32"]
    assert ["bfloat16", "control", "w8a8"] in engines


def test_the_first_turn_of_an_engine_is_not_recorded(
    engines: list[list[str]], tmp_path: Path
) -> None:
    """It creates kernels, for steps that verify drafts too."""
    document = begin()
    run(tmp_path, document)
    assert ASKED["w8a8+ngram"] == [(2, 4)] * (1 + 3)
    assert len([one for one in document["products"] if one["variant"] == "w8a8+ngram"]) == 3


def test_a_complete_document_is_left_as_it_is(engines: list[list[str]], tmp_path: Path) -> None:
    document = begin()
    run(tmp_path, document)
    before = json.dumps(document)
    engines.clear()
    run(tmp_path, document)
    assert json.dumps(document) == before
    assert engines == []


def test_a_round_that_was_cut_off_is_repeated_by_all(
    engines: list[list[str]], tmp_path: Path
) -> None:
    document = begin()
    run(tmp_path, document, rounds=2)
    engines.clear()
    run(tmp_path, document, rounds=3)
    numbers = [turn["round"] for turn in document["turns"] if turn["variant"] == "w8a8"]
    assert numbers == [0, 1, 2]
    assert len(engines) == 2  # formats and products, each for one more round


def test_an_engine_that_ends_is_left_out_and_the_others_are_measured(
    engines: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{__name__}.FAILING", {"w8a8+ngram"})
    document = begin()
    run(tmp_path, document)
    [failure] = document["failures"]
    assert (failure["kind"], failure["variant"]) == ("products", "w8a8+ngram")
    counts = Counter(turn["variant"] for turn in document["products"])
    assert counts == {"float32": 3, "float32+ngram": 3, "w8a8": 3, "control": 3}
    assert [one["variant"] for one in document["profiles"]] == ["float32", "w8a8"]
    before = json.dumps(document)
    run(tmp_path, document)
    assert json.dumps(document) == before


def test_more_rounds_keep_the_pair_whose_products_are_measured(
    engines: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the unquantized model in the other format is the faster one in the later rounds."""
    document = begin()
    run(tmp_path, document, rounds=1)
    monkeypatch.setitem(SECONDS, "bfloat16", 0.1)
    run(tmp_path, document, rounds=4)
    summary = summarize(document, "m")
    assert summary["baseline"] == "bfloat16"
    assert {turn["variant"] for turn in document["products"] if turn["round"] == 3} == {
        "float32", "float32+ngram", "w8a8", "w8a8+ngram", "control"
    }  # fmt: skip
    assert [row["format"] for row in summary["products"]] == ["w8a8"]


@pytest.mark.parametrize("failing", [{"float32", "bfloat16"}, {"float32", "bfloat16", "w8a8"}])
def test_without_a_baseline_nothing_is_compared(
    engines: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: set[str]
) -> None:
    monkeypatch.setattr(f"{__name__}.FAILING", failing)
    document = begin()
    run(tmp_path, document)
    assert {one["variant"] for one in document["failures"]} == failing
    assert (document["products"], document["profiles"]) == ([], [])
    assert summarize(document, "m")["baseline"] is None
