"""What the watch makes of an engine's steps: categories, events, the log, bounds."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.runtime.engine.drift import drift_watch
from paceline.runtime.engine.drift.category_watch import FIRST_REFERENCE
from paceline.runtime.engine.drift.drift_watch import MAX_FOLLOWED, DriftWatch
from paceline.runtime.governor.values import StepSample
from paceline.testing.policy_simulator.traffic.passages import PassageTraffic, draft_text, draw_text
from unit.engine.recording.requests import sample

TRAFFIC = PassageTraffic(0.6, spread=0.08, output_tokens=60)


class Engine:
    """Serves one request after another, and passes every step to a watch."""

    def __init__(self, watch: DriftWatch, step_seconds: tuple[float, ...] = ()) -> None:
        self.watch = watch
        self.requests: dict[str, Any] = {}
        self.step_seconds = step_seconds
        self._num_served = 0

    def step(self, step: StepSample) -> None:
        self.watch.step_finished(
            step, self.requests, lambda request: request.category, lambda: self.step_seconds
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


CURVE = (0.010, 0.011, 0.012, 0.013)


def code(engine: Engine) -> dict[str, Any]:
    return engine.watch.state()["categories"]["code"]


def half_hours(engine: Engine, traffic: PassageTraffic, number: int, seed: int) -> None:
    """180 requests in each, one every 10 s."""
    engine.serve_traffic(traffic, 180 * number, seed)


def test_a_fall_of_half_an_hour_costs_a_share_of_the_work_until_acceptance_is_back() -> None:
    engine = Engine(DriftWatch(monotonic=Clock(10.0)), CURVE)
    half_hours(engine, TRAFFIC, 3, 1)
    assert code(engine)["lasting_lost_fraction"] == 0
    half_hours(engine, TRAFFIC.shifted(-0.2), 2, 2)
    state = code(engine)
    assert state["events_total"] == 1
    assert 0.15 < state["lasting_lost_fraction"] < 0.5
    assert state["acceptance_best_level"] == pytest.approx(0.6, abs=0.04)
    assert state["acceptance_last_half_hour"] == pytest.approx(0.4, abs=0.04)
    half_hours(engine, TRAFFIC, 2, 3)
    state = code(engine)
    assert (state["lasting_lost_fraction"], state["acceptance_best_level"]) == (0, None)


def test_the_cost_of_a_fall_is_that_of_the_present_load_and_share() -> None:
    """Where a step with drafts takes much longer, none is best with either acceptance; 50 requests
    of another category are 500 s."""
    engine = Engine(DriftWatch(monotonic=Clock(10.0)), CURVE)
    half_hours(engine, TRAFFIC, 3, 1)
    half_hours(engine, TRAFFIC.shifted(-0.2), 2, 2)
    alone = code(engine)["lasting_lost_fraction"]
    for _ in range(50):
        engine.serve([(3, 3)] * 9, "chat")
    shared = code(engine)["lasting_lost_fraction"]
    assert 0 < shared < alone
    engine.step_seconds = (0.01, 1.0)
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 1, 3)
    assert code(engine)["lasting_lost_fraction"] == 0


def test_a_fall_costs_nothing_ten_minutes_after_the_last_request() -> None:
    clock = Clock(10.0)
    engine = Engine(DriftWatch(monotonic=clock), CURVE)
    half_hours(engine, TRAFFIC, 3, 1)
    half_hours(engine, TRAFFIC.shifted(-0.2), 2, 2)
    clock.now_s += 580
    assert code(engine)["lasting_lost_fraction"] > 0
    clock.now_s += 20
    assert code(engine)["lasting_lost_fraction"] == 0


def test_the_cost_of_a_shift_is_shown_for_a_day_of_half_hours() -> None:
    engine = Engine(DriftWatch(monotonic=Clock(30.0)), CURVE)
    engine.serve_traffic(TRAFFIC, FIRST_REFERENCE, 1)
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 60, 2)
    assert code(engine)["lost_tokens_per_s"] > 0
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 4000, 3)  # 100 to a half hour
    assert code(engine)["lost_tokens_per_s"] > 0
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 1000, 4)
    assert code(engine)["lost_tokens_per_s"] == 0


def test_a_shift_that_lasts_a_few_minutes_is_no_fall() -> None:
    """60 requests, 10 minutes, of which a half hour has at most a third."""
    engine = Engine(DriftWatch(monotonic=Clock(10.0)), CURVE)
    half_hours(engine, TRAFFIC, 3, 1)
    engine.serve_traffic(TRAFFIC.shifted(-0.2), 60, 2)
    assert code(engine)["events_total"] == 1
    for part in range(4):
        engine.serve_traffic(TRAFFIC, 120, 3 + part)
        assert code(engine)["lasting_lost_fraction"] == 0


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
                "lasting_lost_fraction": 0.0, "acceptance_best_level": None,
                "acceptance_last_half_hour": None,
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
