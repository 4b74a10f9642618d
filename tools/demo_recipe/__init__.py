"""The recipe that made the bundled pair: `PYTHONPATH=tools python -m demo_recipe.train`.

The steps in order: `corpus` and `tasks` (text), `tokenizer` and `dataset` (rows), `model`,
`initial` and `training` (weights), `own_answers` (the draft's last lessons), `export`, `evaluate`
and `card`. `deepen` makes the costlier twin for benchmarks. What `paceline draft` needs too is in
`paceline.foundation.distillation`. No other package imports this package.
"""
