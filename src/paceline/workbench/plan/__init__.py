"""`paceline plan`: what a model needs on which hardware, how fast it is there and what it costs.

Rooms, each importing only those after it: `command` · `options` · `calibration` (a probe of a
running server) · `output` (the terminal, JSON, files to start from) · `decisions` (memory, speed,
fleet, advice) · `sources` (models and hardware) · `values`. The arithmetic is in
`paceline.foundation.capacity`. It imports no engine and no torch, and uses the network only to
calibrate.
"""
