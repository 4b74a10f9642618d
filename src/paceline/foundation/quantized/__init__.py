"""Quantized weights as folders: schemes, rounding, compression and provenance."""
