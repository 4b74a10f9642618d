"""Find the configuration with the most goodput per dollar under an SLO, on live servers.

`search` decides which setting to measure next, `live` starts servers and measures, `output` shows
the result, and `command` composes them. `screening` asks the planner what fits and what to expect.
"""
