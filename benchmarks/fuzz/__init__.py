"""The generated inputs and the judge of `benchmarks/fuzz_gateway.py`."""
