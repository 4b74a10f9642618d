"""Measure a served model from the client's side: `paceline bench`.

Packages: `load` sends requests and records them, `results` turns records and counters into figures,
`run` is the command `paceline bench run`. A new command gets its own package next to `run` and one
line in `command`. Imports go run -> results -> load. docs/bench.md defines every figure.
"""
