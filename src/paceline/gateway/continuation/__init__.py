"""Token-exact continuation: another replica continues a stream whose replica failed.

vLLM reports the token ids of prompt and answer on request (`return_token_ids`). The gateway
requests and records them for every stream (`token_history`, `tracked_relay`). When the replica
fails, another one continues after the last token (`resume_point`, `resume`), and its events get the
form of the stream that the client already has (`continued_relay`, `stop_strings`). `eligibility`
says for which requests that is possible.

Other packages use `ResumableStream`, `CannotContinue` and `DetokeniseFailed` of `resumable_stream`.
"""
