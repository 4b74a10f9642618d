"""`paceline bench sweep`: one open-loop run per rate, up to the rate that a server cannot keep.

`rates` decides which rate comes next and whether the server kept one; `measure` carries the runs
out, `report` writes what they found. For other packages: `command.sweep_command`.
"""
