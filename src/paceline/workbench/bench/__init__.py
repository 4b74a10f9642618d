"""Measure a served model from the client's side: `paceline bench`.

Packages: `load` sends requests and records them, `results` turns records and counters into figures,
`report` makes an HTML page, `governor` sets the governors of a running server, and `run`,
`compare`, `quick`, `trace` and `export` are a command each. A new command gets its own package next
to `run` and one line in `command`. Imports go commands -> governor, run -> report -> results ->
load. docs/bench.md and the pages that it links define every figure.
"""
