"""What waiting in an engine's queue costs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import Basis, CannotJudge, Cost, CostUnit, unknown_cost

_QUEUE = "vllm:request_queue_time_seconds"
_FIRST_TOKEN = "vllm:time_to_first_token_seconds"


def queue_cost(observation: Observation, name: str, readings: Sequence[EngineReading]) -> Cost:
    """The mean time that requests waited: counted by vLLM, else by Little's law.

    The share is the part of the requests in the engine that wait.
    """
    waiting = _mean([one.num_waiting for one in readings])
    running = _mean([one.num_running for one in readings])
    share = waiting / (waiting + running) if waiting + running > 0 else None
    if observation.kind == "vllm" and len(observation.engines) == 1:
        try:
            queued = observation.histogram(_QUEUE)
        except CannotJudge:
            queued = None
        if queued is not None and queued.mean is not None:
            return Cost(
                Basis.MEASURED,
                f"mean time in the queue of the {queued.count:.0f} requests that ended",
                CostUnit.MS_TO_FIRST_TOKEN,
                1e3 * queued.mean,
                share=share,
            )
    try:
        started = observation.histogram(_FIRST_TOKEN).count if observation.kind == "vllm" else 0.0
    except CannotJudge:
        started = 0.0
    if not started or len(observation.engines) > 1:
        return unknown_cost("the server does not show how long the requests of one engine wait")
    # A count of started requests has a relative error of 1 / sqrt(count).
    seconds, error = waiting * observation.duration_s / started, 2 / math.sqrt(started)
    return Cost(
        Basis.ESTIMATED,
        "requests waiting / requests started per second (Little's law)",
        CostUnit.MS_TO_FIRST_TOKEN,
        1e3 * seconds,
        1e3 * seconds * max(0.0, 1 - error),
        1e3 * seconds * (1 + error),
        share=share,
    )


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else 0.0
