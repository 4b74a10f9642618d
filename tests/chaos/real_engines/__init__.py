"""Kills of real engines under load, for `tests/engine` and `benchmarks/chaos_real.py`."""
