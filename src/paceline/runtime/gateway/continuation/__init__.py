"""Token-exact continuation: another replica continues a stream whose replica failed.

vLLM reports the token ids of prompt and answer on request (`return_token_ids`). The gateway
requests them for every stream (`chunks`, `tracked_relay`) and records those that the client has
received (`DeliveredAnswer`, outside this room). When the replica fails, another one continues after
the last of these (`resume_point`, `resume`), and its events get the form of the stream that the
client already has (`continued_relay`, `stream_tail`, `stop_strings`). `eligibility` says for which
requests that is possible.

Other packages use `ResumableStream`, `CannotContinue` and `DetokeniseFailed` of `resumable_stream`.
"""
