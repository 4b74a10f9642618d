"""EAGLE-3 heads: drafters of one layer that read the target's hidden states.

`head` is the network, as vLLM runs it; `drafts` its recurrence over drafted tokens; `states` the
target's hidden states of a text; `vocabulary` the tokens that a head can draft; `folder` what vLLM
loads. `initial` is a new head, `training` its loss, and `measuring` its acceptance.
"""
