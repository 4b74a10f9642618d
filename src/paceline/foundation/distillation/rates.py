"""The learning rate over a training: it warms up, stays constant, and decays to zero.

The length of a training can change while its rate is still constant.
"""

from __future__ import annotations

WARM_UP_STEPS = 40


def rate_factor(step: int, num_steps: int, decay_fraction: float) -> float:
    """Return the factor of the top rate in [0, 1]; the last `decay_fraction` of the steps decay.

    During the first WARM_UP_STEPS steps it does not depend on `num_steps`.
    """
    if step < WARM_UP_STEPS:
        return (step + 1) / WARM_UP_STEPS
    return min(1.0, (num_steps - step) / max(1, int(num_steps * decay_fraction)))
