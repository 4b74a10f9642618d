"""Paceline's own quantization: rounding, an AWQ search and GPTQ, with what vLLM installs.

For dense decoders whose layers it knows (`architecture`). Tensors are written in the layout of
compressed-tensors, one file per decoder layer, so that an interrupted run continues with the first
layer that is missing.
"""
