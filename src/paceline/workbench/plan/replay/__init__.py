"""`paceline plan replay`: what another setting would give, from the recording of an engine.

`acceptance` and `cost_fit` estimate the drafter and the step time, `traffic` makes the load,
`prediction` runs the policy simulator on them, `output` shows the result.
"""
