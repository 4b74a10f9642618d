"""Real engines that are killed or stopped under load, for `tests/engine` and
`benchmarks/chaos_real.py`."""
