"""Every model has a queue of its own, as long as it is served."""

from __future__ import annotations

from paceline.gateway.admission import AdmissionQueues
from unit.gateway.admission.observed_queue import ObservedQueue


async def test_models_do_not_wait_for_each_other() -> None:
    slots = {"small": 1, "large": 1}
    observed = ObservedQueue()
    admissions = AdmissionQueues(observed.settings, lambda model: slots.get(model, 0), observed)
    async with admissions.of("large").slot(60.0), admissions.of("small").slot(60.0):
        assert admissions.of("small") is admissions.of("small")


async def test_queues_of_models_that_left_are_dropped() -> None:
    slots = {"old": 1}
    observed = ObservedQueue()
    admissions = AdmissionQueues(observed.settings, lambda model: slots.get(model, 0), observed)
    old = admissions.of("old")
    slots = {"new": 1}
    admissions.of("new")
    assert admissions.of("old") is not old
