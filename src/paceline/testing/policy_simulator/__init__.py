"""A serving engine in virtual time, with known truth; it drives the same `Policy` as vLLM does.

Packages, each importing only those after it: `command`; `evaluation` (named traces, arms, the
oracle's best length, summaries and comparisons); `engine` (steps a policy through a phase);
`traffic` (what arrives) and `machines` (on what hardware). `python -m
paceline.testing.policy_simulator
--help` runs all arms on a named trace.
"""
