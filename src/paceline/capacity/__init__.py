"""Memory and cost arithmetic of models on hardware: values and pure functions that any part may use.

`roofline` computes the time of a forward pass.
"""
