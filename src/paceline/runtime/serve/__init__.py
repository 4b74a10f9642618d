"""The command `paceline serve`: engines and gateway composed in one process.

`command` is the command line, `plan` turns the settings into what is started, with `engine_plan`
for the engines, `startup_checks` says what will not work, `worker_count` chooses the number of
gateway processes, `run` runs everything, `engines` supervises the engines, `engine_drafts` swaps
their drafts, `shutdown_signals` handles SIGTERM and SIGINT, and `terminal_output` prints progress
and the addresses.

With `--take-over` a new process continues with the ports and engines of a running one: `handover`.
"""
