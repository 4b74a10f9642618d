"""Quantize a model into a folder that unmodified vLLM loads, with its provenance.

- `command`: the command line.
- `own`: the fallback that needs nothing but what vLLM installs.
- `calibration`, `source_model`, `output_folder`, `provenance`, `resources`, `cautions`, `schemes`:
  the parts of a run.
"""
