"""A sequential test of every verdict of the rejection sampler, from inside the engine.

`recorder` runs in the engine's process: it compares each draft token, each verdict and each sampled
token with the distribution that it should come from, which `claims` computes in float64 from the
raw logits and the request's own parameters. `evidence` turns the records into e-values, `power`
says which bias they find, and `rounds` draws them from a running engine.
"""
