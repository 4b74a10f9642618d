"""The pre-deployment checklist, executed: PASS, FAIL or SKIP for every item, with its reason.

A check observes a running deployment over HTTP (`observe`) and decides about what it saw (`judge`,
pure). `validating` runs the checks, `report` renders, signs, verifies and compares the result, and
`fault_injection` injects the faults that prove that each check can fail.
"""
