"""Survival, scales, the hash of a trace, and categories that lack what a run needs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.foundation.shifting_trace.reading import parse_trace
from paceline.foundation.shifting_trace.values import Script, ShiftingTrace, TokenRange
from unit.shifting_trace.documents import document


def small() -> ShiftingTrace:
    return parse_trace(document(), "small")


def test_survival_multiplies_the_acceptance_and_repeats_its_last_entry() -> None:
    script = Script((0.5, 0.8), TokenRange(1, 1), TokenRange(1, 1))
    assert script.survival(4) == pytest.approx((0.5, 0.4, 0.32, 0.256))
    assert script.survival(0) == ()


def test_scales_change_the_load_and_the_length_of_every_phase() -> None:
    closed, opened, counted = small().scaled(load=0.5, time=2).phases
    assert (closed.concurrency, closed.duration_s) == (2, 20)
    assert (opened.rate_per_s, opened.duration_s) == (1, 10)
    assert (counted.concurrency, counted.output_tokens) == (1, 1000)
    assert small().scaled(load=0.01).phases[0].concurrency == 1


def test_the_hash_is_that_of_the_traffic_whatever_its_name() -> None:
    trace = small()
    assert replace(trace, name="other", description="").sha256 == trace.sha256
    assert trace.scaled(load=2).sha256 != trace.sha256
    path = ("categories", "easy", "scripted", "acceptance")
    assert parse_trace(document(*path, value=[0.8]), "t").sha256 != trace.sha256


def test_a_category_without_text_or_script_says_how_to_run_it() -> None:
    silent = parse_trace(document("categories", "easy", "text"), "t")
    unknown = parse_trace(document("categories", "easy", "scripted"), "t")
    with pytest.raises(ValueError, match="'easy' of trace 'small' has no text; give it text"):
        silent.text("easy")
    with pytest.raises(ValueError, match="'easy' of trace 'small' has no scripted acceptance"):
        unknown.script("easy")
