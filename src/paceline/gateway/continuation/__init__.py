"""Token-exact continuation: a stream whose replica died goes on, on another one.

vLLM tells the token ids of prompt and answer where it is asked to (`return_token_ids`). The gateway
asks, keeps them per stream (`trail`, `tracked_relay`), and when the replica dies has another one go
on behind prompt and answer so far (`seam`, `resume`), in the shape of the stream that the client
already has (`spliced_relay`, `stop_strings`). For which streams that is possible says
`eligibility`; `continuing` holds it together.
"""
