"""The format of a recording: what the engine writes and `paceline plan replay` reads.

`records` has the lines and their schema, `verdict_counts` and `step_cells` make them from what an
engine sees, `reading` reads a file. No part is imported here; every part may import this one.
"""
