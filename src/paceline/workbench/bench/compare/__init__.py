"""The paired, interleaved A/B comparison: `paceline bench compare`.

Decisions: `signed_rank` (intervals), `looks` (sequential stopping), `contrasts` (differences of a
round), `verdict`, `arm_settings` (what `--settings` says). Shells: `campaign` (the order of the
blocks and the time limit), `block_runner` (HTTP), `servers` (starts configurations), `switching`
(sets the governors before each block), `command`.
"""
