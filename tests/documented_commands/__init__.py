"""The commands that README.md and docs/ show, and the parsers they are held to.

`pages` finds them, `shell` splits them into words, `paceline_command`, `python_command` and
`vllm_command` hand them to the real parsers without running what they do, and `checking` chooses.
"""
