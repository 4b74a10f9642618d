"""The gateway and the tools before servers that are not vLLM, run for real."""
