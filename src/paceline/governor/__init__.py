"""The governor: measured steps in, draft lengths out.

Pure: no engine, no clock, no I/O. Packages, each importing only those to its right: `policies` >
`exploration` > `estimates` > `values`.

Other parts use `policy.Policy` (the boundary), `policy_definition` (how a policy declares itself),
`values`, `policies.builtin`, `contract` and `prefill_pacing`.
"""
