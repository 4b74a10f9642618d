"""The paired, interleaved A/B comparison: `paceline bench compare`.

Decisions: `signed_rank` (intervals), `looks` (sequential stopping), `contrasts` (differences of a
round), `verdict`. Shells: `campaign` (the order of the blocks and the time limit), `block_runner`
(HTTP), `servers` (starts configurations), `command`.
"""
