"""The simulated engine: its batch, its steps and their log.

Other packages use `simulated_engine.SimulatedEngine` and `step_log.StepLog`.
"""
