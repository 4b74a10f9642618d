"""The HTTP side of the mock server: connections, requests, refusals and answers in vLLM's format.

Other packages use `Exchange`, `AnswerSender`, the request parser and the renderers.
"""
