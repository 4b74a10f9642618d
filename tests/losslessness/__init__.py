"""Checks that a speculative engine generates exactly what its target model would.

`greedy` judges greedy output by teacher forcing, `sampling` judges sampled output by a G-test; both
are pure. `engine_host` runs a real vLLM engine in a process of its own, and `checks` connects the
two. `faults` are injected into an engine, to show that the checks find them.
"""
