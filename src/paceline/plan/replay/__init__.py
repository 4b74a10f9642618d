"""`paceline plan replay`: what another setting would give, from the recording of an engine.

`acceptance` and `cost` estimate the drafter and the step time, `traffic` makes the load,
`prediction` runs the policy simulator on them, `report` and `document` show the result.
"""
