"""The governor: measured steps in, draft lengths out.

Pure: no engine, no clock, no I/O. Each imports only what is to its right: `policies` > `forecast` >
`drafting` > `costs` and `acceptance` > `values`.

Other parts use `policy` (the boundary), `policy_definition` (how a policy declares itself),
`values`, `policies.builtin`, `policies.schedule` (its ranges are a setting), `contract`,
`prefill_pacing`, and what `costs`, `acceptance` and `drafting` name.
"""
