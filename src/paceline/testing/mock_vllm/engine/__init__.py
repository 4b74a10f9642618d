"""The mock engine: scheduling in virtual time, a virtual KV cache, and vLLM's metrics.

Other packages use `EngineRunner`, `EngineMetrics` and `Sequence`.
"""
