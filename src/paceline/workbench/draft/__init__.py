"""`paceline draft`: distil a draft model on the target's own outputs, and measure its acceptance.

Rooms, each of which imports only those below it (`pyproject.toml` enforces this):

- `command`: the options of the command line.
- `training`: distillation, promotion and the folder of a new draft; `eagle3`: EAGLE-3 heads through
  the package speculators; `evaluation`: `paceline draft eval`.
- `swap_command`: requests to a running server, which replaces the draft of its engines.
- `acceptance`: acceptance by position as vLLM counts it, with intervals.
- `answers`: the target's own answers, on disk.
- `models`, `prompts`, `sampling`, `interruption`, `progress`, `values`.
"""
