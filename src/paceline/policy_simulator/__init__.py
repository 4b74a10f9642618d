"""A serving engine in virtual time, with known truth; it drives the same `Policy` as vLLM does.

`traffic` says what arrives, `profiles` on what machine, `engine` steps a policy through it,
`oracle` knows from the truth what would have been best, `summary` and `compare` say how near the
policy came. `python -m paceline.policy_simulator --help` runs all arms on a named trace.
"""
