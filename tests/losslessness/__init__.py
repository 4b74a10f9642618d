"""Is what a speculative engine puts out exactly what its target would?

`greedy` judges greedy output by teacher forcing, `sampling` judges sampled output by a G-test;
both are pure. `engine_host` runs a real vLLM engine in a child process for them.
"""
