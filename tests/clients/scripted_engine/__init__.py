"""An engine whose prompt selects its answer, in the format of vLLM 0.32's server.

The last message selects a plain answer, an error with some status ("error 429"), a stream that
breaks ("break") or a stream without end ("endless"). Requests with tools get tool calls, and
requests with a JSON schema get JSON. The engine records the bodies, the number of requests per
prompt, and the number of aborted streams.
"""

from __future__ import annotations

from clients.scripted_engine.script import CALLS, MODEL, OBJECT, TEXT, USAGE
from clients.scripted_engine.server import ScriptedEngine

__all__ = ["CALLS", "MODEL", "OBJECT", "TEXT", "USAGE", "ScriptedEngine"]
