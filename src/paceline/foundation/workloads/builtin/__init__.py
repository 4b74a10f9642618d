"""The built-in workloads, one per file. The registry finds them."""
