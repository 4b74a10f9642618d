"""Paceline: a governor for speculative decoding on vLLM, and the system around it.

The parts are packages of their own: `governor` decides, `engine` meets vLLM, `gateway` meets
clients, `bench` measures. Importing `paceline` imports none of them.
"""

__version__ = "0.1.0"
