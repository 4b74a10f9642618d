"""Memory and cost arithmetic: values and pure functions that every part may import.

`model` holds what a model is made of: weights and KV cache by number format. `memory_budget`
divides the memory of a GPU (`hardware`), `step_time` gives the time of a step, `speculation` the
gain of a draft length, `queueing` the wait for a slot, `prompt_queue` that for the prompts of
others, `cost` the bill. `kv_cache` sizes the cache on a CPU, `roofline` is the policy simulator's
time of a forward pass. It imports no other part.
"""
