"""What the governor knows of the drafter: how often its tokens are accepted.

For other packages: `confidence_map.Floats`. `forecast`, `drafting` and `policies` use the rest.
"""
