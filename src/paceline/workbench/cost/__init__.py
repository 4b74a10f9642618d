"""What measured throughput costs: `paceline cost`.

`arithmetic` holds the formulas, `measured` reads the JSON of `paceline bench run`, `assumptions`
puts into words what the figures rest on, `command` is the shell.
"""
