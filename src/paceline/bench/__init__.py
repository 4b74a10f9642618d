"""Measures a served model from the client's side: `paceline bench run`.

Values in `values`; decisions in `arrivals`, `workloads`, `summary`, `sse` and `speculation`;
shells in `client`, `load`, `counters`, `run` and `command`. See docs/bench.md for definitions.
"""
