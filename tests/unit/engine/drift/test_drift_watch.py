"""What the watch makes of an engine's steps: categories, events, the log, bounds."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.engine.drift import drift_watch
from paceline.engine.drift.category_watch import FIRST_REFERENCE
from paceline.engine.drift.drift_watch import MAX_FOLLOWED, DriftWatch
from paceline.engine.drift.level_history import LASTING_S
from paceline.governor.values import ReplayScores, StepSample
from paceline.policy_simulator.traffic.passages import PassageTraffic, draft_text, draw_text
from unit.engine.recording.requests import sample

TRAFFIC = PassageTraffic(0.6, spread=0.08, output_tokens=60)


class Engine:
    """Serves one request after another, and passes every step to a watch."""

    def __init__(self, watch: DriftWatch, step_seconds: tuple[float, ...] = ()) -> None:
        self.watch = watch
        self.requests: dict[str, Any] = {}
        self._step_seconds = step_seconds
        self._num_served = 0

    def step(self, step: StepSample) -> None:
        self.watch.step_finished(
            step, self.requests, lambda request: request.category, lambda: self._step_seconds
        )

    def begin(self, category: str = "code") -> str:
        self._num_served += 1
        name = f"r{self._num_served}"
        self.requests[name] = SimpleNamespace(category=category)
        return name

    def end(self, *names: str) -> None:
        for name in names:
            del self.requests[name]
        self.step(sample(num_ended=len(names)))

    def serve(self, steps: list[tuple[int, int]], category: str = "code") -> None:
        name = self.begin(category)
        for requested, accepted in steps:
            self.step(
                sample(name, drafted=(requested,), accepted=(accepted,),
                       requested_draft_length=requested, draft_length=requested)
            )  # fmt: skip
        self.end(name)

    def serve_traffic(self, traffic: PassageTraffic, num_requests: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        for mean in traffic.means(random, num_requests):
            self.serve(list(draft_text(draw_text(traffic, mean, random), lambda: 3)))


def drifted_engine(**given: Any) -> Engine:
    """An engine whose acceptance has fallen by 0.2."""
    engine = Engine(DriftWatch(clock=lambda: 1_800_000_000.0), **given)
    engine.serve_traffic(TRAFFIC, FIRST_REFERENCE, 1)
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 100, 2)
    return engine


def test_a_drift_is_an_event_and_a_line_with_its_category_and_cost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, drift_watch.logger.name):
        state = drifted_engine(step_seconds=(0.010, 0.011, 0.012, 0.013)).watch.state()
    (event,) = state["events"]
    assert (event["number"], event["category"]) == (1, "code")
    assert event["at"] == "2027-01-15T08:00:00+00:00"
    assert event["acceptance_now"] < 0.5 < event["acceptance_before"]
    low, high = event["lost_tokens_per_s_low"], event["lost_tokens_per_s_high"]
    assert 0 < low < event["lost_tokens_per_s"] < high
    (line,) = caplog.messages
    assert "the acceptance of category code fell from 0." in line
    assert f"it costs {event['lost_tokens_per_s']:.1f} tokens/s ({low:.1f} to {high:.1f})" in line
    of_category = state["categories"]["code"]
    assert of_category["events_total"] == 1
    assert of_category["lost_tokens_per_s"] == pytest.approx(event["lost_tokens_per_s"], abs=1e-3)
    assert of_category["reference_acceptance"] is None


class Clock:
    """Every reading is `step_s` after the one before."""

    def __init__(self, step_s: float) -> None:
        self.now_s, self.step_s = 0.0, step_s

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


def _lasting(engine: Engine) -> tuple[float, float | None]:
    """(tokens/s lost by a lasting shift, the acceptance before)."""
    state = engine.watch.state()["categories"]["code"]
    return state["lasting_lost_tokens_per_s"], state["acceptance_before_lasting"]


def long_engine(step_s: float = 0.5) -> tuple[Engine, Clock]:
    """An engine with some 20 steps per request: its first level takes more than half an hour."""
    clock = Clock(step_s)
    engine = Engine(DriftWatch(monotonic=clock), (0.010, 0.011, 0.012, 0.013))
    engine.serve_traffic(TRAFFIC, FIRST_REFERENCE, 1)
    assert clock.now_s > LASTING_S
    return engine, clock


def test_a_shift_costs_what_the_event_says_once_it_lasts_and_until_acceptance_comes_back() -> None:
    engine, _ = long_engine()
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 100, 2)
    assert len(engine.watch.state()["events"]) == 1
    assert _lasting(engine) == (0.0, None)
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 400, 3)
    (event,) = engine.watch.state()["events"]
    lost, before = _lasting(engine)
    assert lost == pytest.approx(event["lost_tokens_per_s"], abs=1e-3)
    assert before == pytest.approx(event["acceptance_before"], abs=1e-4)
    engine.serve_traffic(TRAFFIC, 100, 4)
    assert len(engine.watch.state()["events"]) == 2
    assert _lasting(engine) == (0.0, None)
    engine.serve_traffic(TRAFFIC, 400, 5)
    gained, before = _lasting(engine)
    assert gained < 0
    assert before == pytest.approx(event["acceptance_now"], abs=0.05)


@pytest.mark.parametrize("spread", [0.08, 0.25])
def test_a_small_shift_lasts_however_many_requests_follow(spread: float) -> None:
    """By 0.1, for 4,000 requests, each of which may differ by a good deal."""
    traffic = replace(TRAFFIC, spread=spread)
    engine = Engine(DriftWatch(monotonic=Clock(0.5)), (0.010, 0.011, 0.012, 0.013))
    engine.serve_traffic(traffic, 1600, 1)
    engine.serve_traffic(traffic.shifted(-0.1), 1000, 2)
    for part in range(8):
        engine.serve_traffic(traffic.shifted(-0.1), 500, 3 + part)
        lost, before = _lasting(engine)
        assert lost > 0
        assert before == pytest.approx(0.6, abs=0.03)


def test_another_category_leaves_less_of_the_cost_and_a_pause_nothing() -> None:
    engine, clock = long_engine()
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 500, 2)
    lost, _ = _lasting(engine)
    assert lost > 0
    for _ in range(128):
        engine.serve([(3, 3)] * 9, "chat")
    assert 0 < _lasting(engine)[0] < lost
    for _ in range(256):
        engine.serve([(3, 3)] * 9, "chat")
    assert _lasting(engine)[0] == 0
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 60, 3)
    assert _lasting(engine)[0] > 0
    clock.now_s += 601
    assert _lasting(engine)[0] == 0


def test_a_night_without_requests_is_no_lasting_level() -> None:
    """Six hours pass after the shift, of which a minute counts."""
    engine, clock = long_engine()
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 100, 2)
    clock.now_s += 6 * 3600
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 10, 3)
    assert _lasting(engine) == (0.0, None)


def test_without_a_cost_curve_the_measured_step_times_count() -> None:
    """Steps of length 3 took 20 ms each; the difference in tokens per step is what is lost."""
    (event,) = drifted_engine().watch.state()["events"]
    lost_tokens = event["tokens_per_step_before"] - event["tokens_per_step_now"]
    assert event["lost_tokens_per_s"] == pytest.approx(lost_tokens / 0.02, rel=0.01)


def test_before_the_reference_is_learned_there_is_no_evidence() -> None:
    engine = Engine(DriftWatch())
    engine.serve([(3, 3)] * 9)
    assert engine.watch.state() == {
        "categories": {
            "code": {
                "requests": 1, "acceptance": 1.0, "reference_acceptance": None,
                "evidence_fraction": None, "events_total": 0, "lost_tokens_per_s": 0.0,
                "lasting_lost_tokens_per_s": 0.0, "acceptance_before_lasting": None,
            }
        },
        "events": [],
    }  # fmt: skip


def test_categories_are_apart_and_bounded() -> None:
    engine = Engine(DriftWatch())
    engine.serve([(1, 1)] * 9, "easy")
    engine.serve([(1, 0)] * 9, "hard")
    for number in range(100):
        engine.serve([(1, 1)] * 9, f"c{number}")
    categories = engine.watch.state()["categories"]
    assert len(categories) == 64
    assert (categories["easy"]["acceptance"], categories["hard"]["acceptance"]) == (1.0, 0.0)
    assert categories["other"]["requests"] == 102 - 63


def test_a_bounded_number_of_requests_is_followed() -> None:
    """The next ones get the places of those that end."""
    engine = Engine(DriftWatch())
    names = [engine.begin() for _ in range(2 * MAX_FOLLOWED)]
    num = len(names)
    for _ in range(9):
        engine.step(sample(*names, drafted=(1,) * num, accepted=(1,) * num))
    engine.end(*names[:MAX_FOLLOWED])
    rest = names[MAX_FOLLOWED:]
    for _ in range(9):
        engine.step(sample(*rest, drafted=(1,) * len(rest), accepted=(0,) * len(rest)))
    engine.end(*rest)
    assert engine.watch.state()["categories"]["code"]["requests"] == 2 * MAX_FOLLOWED


def test_requests_differ_in_what_was_requested_of_them() -> None:
    """Of one, 1 token; of the other, 2."""
    engine = Engine(DriftWatch())
    names = engine.begin("a"), engine.begin("b")
    for _ in range(10):
        engine.step(sample(*names, drafted=(1, 2), accepted=(1, 1), requested=(1, 2)))
    engine.end(*names)
    categories = engine.watch.state()["categories"]
    assert (categories["a"]["acceptance"], categories["b"]["acceptance"]) == (1.0, 1.0)


def test_replayed_drafts_count_while_nothing_is_drafted() -> None:
    """As drafts of two tokens: eight rejected with weight 3, eight accepted with weight 1."""
    engine = Engine(DriftWatch())
    name = engine.begin()
    scores = ReplayScores((8,) * 17, (5, 0) * 8 + (5,), 64, 0, 0.001, judged=(name,) * 17)
    engine.step(sample(draft_length=2, requested_draft_length=0, replay_scores=scores))
    engine.step(sample(draft_length=0, requested_draft_length=0, replay_scores=scores))
    engine.end(name)
    state = engine.watch.state()["categories"]["code"]
    assert (state["requests"], state["acceptance"]) == (1, 0.25)


def test_scores_without_request_ids_are_passed_over() -> None:
    engine = Engine(DriftWatch())
    scores = ReplayScores((8,), (5,), 64, 0, 0.001)
    engine.step(sample(draft_length=0, requested_draft_length=0, replay_scores=scores))
    assert engine.watch.state()["categories"] == {}
