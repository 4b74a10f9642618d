"""Measure a served model from the client's side: `paceline bench`.

Rooms: `load` sends requests and records them, `results` turns records and counters into figures,
`run` is the command `paceline bench run`. A further command gets a room beside `run` and one line
in `command`. Imports go run -> results -> load. docs/bench.md defines every figure.
"""
