"""A wrong name gets the allowed one that it resembles, wherever names are given."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from paceline.cli import main
from paceline.foundation.command_line.near_names import did_you_mean, nearest

SOURCES = Path(__file__).parents[2] / "src" / "paceline"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("smolm", "smollm2"),
        ("Bundled", "bundled"),
        ("ngrams", "ngram"),
        ("suffixx", "suffix"),
        ("nonsense", None),
        ("", None),
    ],
)
def test_only_a_likely_name_is_offered(given: str, found: str | None) -> None:
    assert nearest(given, ["smollm2", "bundled", "ngram", "suffix", "none"]) == found


def test_what_is_no_text_resembles_no_name() -> None:
    assert did_you_mean(None, ["none"]) == did_you_mean(7, ["7"]) == ""


@pytest.mark.parametrize(
    ("words", "near"),
    [
        ("servee", "serve"),
        ("mock-vlm", "mock-vllm"),
        ("bench run --workload predictabel", "predictable"),
        ("quantize m --scheme gtpq --out q", "gptq"),
        ("serve --policy goodputt --print-config", "goodput"),
        ("serve smolm --check", "smollm2"),
        ("serve bundled --draft ngrm --check", "ngram"),
        ("plan bundled --gpu h10", "h100"),
        ("quantize smolm --scheme fp8 --out q", "smollm2"),
        ("plan smolm", "smollm2"),
    ],
)
def test_commands_offer_the_near_name(
    words: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == 2
    assert result.output.rstrip().rstrip(".").endswith(f"; did you mean {near}?")


@pytest.mark.parametrize(
    ("setting", "near"),
    [
        ("engine: {dtype: bfloat61}", "bfloat16"),
        ("engine: {skip_checks: [memori]}", "memory"),
        ("replicas: [{url: 'http://a:1', dialekt: vllm}]", "dialect"),
        ("replicas: [{url: 'http://a:1', dialect: sglan}]", "sglang"),
        ("engine: {polcy: off}", "engine.policy"),
    ],
)
def test_settings_offer_the_near_name(setting: str, near: str, tmp_path: Path) -> None:
    file = tmp_path / "paceline.yaml"
    file.write_text(setting)
    result = CliRunner().invoke(main, ["serve", "--config", str(file), "--print-config"])
    assert result.exit_code == 2
    assert f"did you mean {near}?" in result.output


def test_every_choice_of_an_option_offers_the_near_name() -> None:
    plain = [
        path.name
        for path in SOURCES.rglob("*.py")
        if re.search(r"click\.Choice\(", path.read_text())
    ]
    assert plain == []
