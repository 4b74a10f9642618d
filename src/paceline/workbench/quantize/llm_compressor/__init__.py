"""llm-compressor in an environment of its own, driven as a subprocess.

Its pins exclude those of vLLM, so the two cannot share an environment. vLLM loads what it writes.
"""
