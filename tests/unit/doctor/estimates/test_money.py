"""What lost throughput and capacity cost in money."""

from __future__ import annotations

import pytest
from yarl import URL

from paceline.operations.doctor.checks.fleet import unavailable
from paceline.operations.doctor.checks.speculation import loss
from paceline.operations.doctor.diagnosing import DoctorConfig, Visit, money_of
from paceline.operations.doctor.estimates.money import Amount, MachinePrice, MoneyLost, money_lost
from paceline.operations.doctor.observing.watching import Watch
from paceline.operations.doctor.readings.probe_result import MeasuredGain
from paceline.operations.doctor.values import Basis, Cost, CostUnit, unknown_cost
from unit.doctor.gateways import CHANGES, observe_gateway, probed
from unit.doctor.simulated import SimulatedEngine, observe_vllm

PRICE = MachinePrice(3.6)


def lost_tokens(amount: float, low: float, high: float, present: float | None) -> Cost:
    return Cost(
        Basis.ESTIMATED, "a guess", CostUnit.TOKENS_PER_S, amount, low, high,
        present_tokens_per_s=present,
    )  # fmt: skip


def test_lost_tokens_cost_their_part_of_the_machine() -> None:
    """750 tokens/s where 1000 are possible: a quarter of $3.60. 1M tokens cost $1.333, not $1."""
    cost = lost_tokens(250.0, 0.0, 750.0, present=750.0)
    money = money_lost(cost, PRICE, num_affected=1, num_engines=1)
    assert money is not None
    assert money.usd_per_hour == Amount(pytest.approx(0.9), 0.0, pytest.approx(1.8))
    assert money.usd_per_million_output_tokens == Amount(
        pytest.approx(4 / 3 - 1), 0.0, pytest.approx(4 / 3 - 2 / 3)
    )


def test_one_of_several_engines_has_its_part_of_the_price() -> None:
    """8 machines, 4 engines: two machines of $3.60 carry the engine, and half of them is lost."""
    cost = lost_tokens(100.0, 100.0, 100.0, present=100.0)
    money = money_lost(cost, MachinePrice(3.6, 8), num_affected=1, num_engines=4)
    assert money is not None
    assert money.usd_per_hour.amount == pytest.approx(3.6)
    assert money.usd_per_million_output_tokens is not None
    assert money.usd_per_million_output_tokens.amount == pytest.approx(10.0)


def test_an_interval_that_begins_with_a_gain_is_shown_as_it_is() -> None:
    money = money_lost(lost_tokens(50.0, -20.0, 100.0, present=100.0), PRICE, 1, 1)
    assert money is not None
    assert money.usd_per_hour.low == pytest.approx(-0.9)


@pytest.mark.parametrize(
    "cost",
    [
        unknown_cost("nothing shows it"),
        lost_tokens(100.0, 0.0, 200.0, present=None),
        lost_tokens(-5.0, -9.0, 1.0, present=100.0),
        Cost(Basis.MEASURED, "", CostUnit.PERCENT_OF_REQUESTS, 10.0, share=0.1),
        Cost(Basis.MEASURED, "", CostUnit.MS_TO_FIRST_TOKEN, 10.0, share=0.1),
        Cost(Basis.MEASURED, "", CostUnit.MS_PER_TOKEN, 10.0, share=0.1),
    ],
)
def test_what_has_no_price_states_none(cost: Cost) -> None:
    assert money_lost(cost, PRICE, 1, 1) is None


def test_the_true_loss_of_a_simulated_engine_lies_in_the_interval() -> None:
    """At load 4, a step with 8 drafts takes 20 + 8 * 2 + 4 * 9 * 0.05 ms, without them 20.2 ms."""
    engine = SimulatedEngine(reached=(0.0,) * 8, draft_ms=2, loads=(4,) * 16)
    (finding,) = loss.CHECK.judge(observe_vllm(engine))
    assert finding.id == "speculation-loses"
    money = money_lost(finding.cost, PRICE, 1, 1)
    assert money is not None
    true_part = 1 - engine.gain(4)
    assert _is_within(3.6 * true_part, money.usd_per_hour)
    tokens_per_s = 4 / (engine.step_ms(4) / 1e3)
    true_usd = (3.6 / 3600 * 1e6) / tokens_per_s * true_part
    assert _is_within(true_usd, money.usd_per_million_output_tokens)


def _is_within(value: float, amount: Amount | None) -> bool:
    assert amount is not None
    assert amount.low is not None
    assert amount.high is not None
    return amount.low <= value <= amount.high


@pytest.mark.parametrize(
    "figures", [{"paceline_replica_state": 0}, {CHANGES: 77}], ids=["down", "stalled"]
)
def test_a_lost_replica_costs_its_part_of_all_machines(figures: dict[str, float]) -> None:
    (finding,) = unavailable.CHECK.judge(observe_gateway({"r0": figures, "r1": {}}))
    assert finding.cost.share == pytest.approx(0.5)
    assert money_lost(finding.cost, MachinePrice(2.0, 2), 1, 2) == MoneyLost(Amount(2.0), None)


def test_a_measured_loss_is_of_the_replicas_that_serve_the_model() -> None:
    """Of 4 machines one has another model, and one is down. At 0.5 times the tokens/s, half of what
    the other two cost is lost.
    """
    gain = MeasuredGain(0.5, 0.4, 0.6, num_pairs=4, concurrency=8, tokens_per_s=100.0)
    states = {"r0": "ready", "r1": "down", "r2": "draining", "r3": "ready"}
    entries = [
        {"name": name, "model": "other" if name == "r3" else "m", "state": state}
        for name, state in states.items()
    ]
    replicas = {name: {"paceline_replica_state": 0 if name == "r1" else 2} for name in states}
    observed = observe_gateway(replicas, entries=entries, probe=probed(gain=gain))
    (finding,) = loss.CHECK.judge(observed)
    config = DoctorConfig(URL("http://a"), 15.0, price=MachinePrice(3.0, 4))
    visit = Visit(config, probe=observed.probe, watch=Watch(list(observed.readings)))
    money = money_of(visit, finding)
    assert money is not None
    assert money.usd_per_hour.amount == pytest.approx(3.0)


@pytest.mark.parametrize(("usd", "machines"), [(0.0, 1), (float("inf"), 1), (1.0, 0)])
def test_a_price_of_nothing_is_refused(usd: float, machines: int) -> None:
    with pytest.raises(ValueError, match="above 0"):
        MachinePrice(usd, machines)
