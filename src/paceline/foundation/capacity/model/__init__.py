"""What a model is made of: its matrices, their bytes in each weight format, and its KV cache.

`hf_config` reads a `config.json` into a `ModelShape` (`shape`); `matrices` lists the weights of one
GPU; `weight_format` gives their bytes; `weights` adds them up; `kv_layout` sizes the KV cache.
"""
