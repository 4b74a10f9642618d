"""One benchmark run against one server: the command `paceline bench run`.

For other packages: `config.RunConfig`, `measure.measure` and its `RunResult`, `progress`, `report`.
"""
