"""Quantize a model into a folder that unmodified vLLM loads, with its provenance.

- `command`: the command line.
- `own`: the fallback that needs nothing but what vLLM installs.
- `llm_compressor`: llm-compressor in an environment of its own, driven as a subprocess.
- `calibration`, `source_model`, `output_folder`, `provenance`, `resources`, `cautions`, `schemes`:
  the parts of a run.
"""
