"""The command `paceline bench trace`: hold an engine to a shifting-acceptance trace.

`config` is what to run and `parsing` makes it from the options. `requests` makes the requests,
`phase_run` sends them phase by phase, `started_server` starts servers with the rates of
`static_acceptance`, `measure` carries out a run, `figures` and `oracle` compute what it shows,
`report` and `table` write and show it. docs/reference/shifting-trace.md documents the format and
the report.
"""
