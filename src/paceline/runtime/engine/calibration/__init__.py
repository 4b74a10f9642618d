"""Measure at the start of an engine what its steps cost, store it, and check it at the next start.

For the scheduler: `start.load_or_measure` and `start.Calibration`. `plan` chooses what
is measured, `measuring` runs it within a time budget, `cost_samples` makes the table; `store` and
`identity` keep it on disk; `recheck` decides whether a stored table still holds. `trial_steps` runs
steps in vLLM's workers, and `suitability` says in which engines that is possible.
"""
