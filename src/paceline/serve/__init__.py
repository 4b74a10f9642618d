"""`paceline serve`: the supervisor of the engines and the gateway, composed in one process.

`command` reads flags, `plan` turns settings into values for each part, `run` carries them out,
`screen` tells a person about it.
"""
