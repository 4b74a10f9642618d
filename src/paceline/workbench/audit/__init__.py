"""Audit an OpenAI-compatible endpoint: whether its speculation changes what the model says.

The endpoint's own log-probabilities after fixed prefixes, from requests of one token that draft
nothing, are the truth. Greedy tokens must be the most likely ones, and sampled tokens must follow
the distribution that the log-probabilities and the request's parameters give.
"""
