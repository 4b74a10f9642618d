"""`paceline top`: the live view of a running server in a terminal.

`command` is the command, `connection` reads /dashboard/state and /dashboard/events, `history` keeps
what the events say, and `screen` renders it. It knows the server by its JSON only. `plain_server`
makes the same of the metrics of a vLLM server without a gateway.
"""
