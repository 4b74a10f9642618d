"""Memory and cost arithmetic: values and pure functions that every part may import.

`kv_cache` computes memory, `roofline` the time of a forward pass. It imports no other part.
"""
