"""One vLLM server as a supervised process: start, watch, restart, and leave nothing running.

For other parts: `supervisor.EngineSupervisor` and `supervisor.EngineFailed`. This file imports
nothing: the guard process loads the package and must stay small.
"""
