"""Find out what is wrong with a running deployment, and what it costs.

`checks` are decisions from an `Observation` to findings; `observing` and `probing` meet the server.
"""
