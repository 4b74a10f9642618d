"""Curves of detection."""

from __future__ import annotations

from typing import Any

from benchmarks.quality.detection import Detection, detected_size, detection_curve, summarize


def runs(name: str, size: float, *verdicts: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "size": size, "verdict": verdict, "is_sound": False} for verdict in verdicts
    ]


def test_a_curve_counts_rejections_by_size() -> None:
    found = [
        *runs("scale", 0.2, "rejected", "rejected"),
        *runs("scale", 0.1, "undecided", "rejected"),
        *runs("rows", 7, "approved"),
    ]
    assert detection_curve(found, "scale") == [Detection(0.1, 1, 2), Detection(0.2, 2, 2)]


def test_the_detected_size_has_no_miss_above_it() -> None:
    """19 of 20 are enough, 18 are not."""
    assert detected_size([Detection(1, 18, 20), Detection(2, 19, 20), Detection(3, 20, 20)]) == 2
    assert detected_size([Detection(1, 20, 20), Detection(2, 18, 20), Detection(3, 20, 20)]) == 3
    assert detected_size([Detection(1, 20, 20), Detection(2, 18, 20)]) is None


def test_the_summary_counts_sound_models_apart() -> None:
    sound = [{"name": "w8a8", "size": None, "verdict": "approved", "is_sound": True}]
    found = summarize([*runs("rows", 7, "rejected"), *sound])
    assert found == "of 1 sound ones 0 rejected and 1 approved; detected from: rows 7"
