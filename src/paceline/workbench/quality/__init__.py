"""The quality gate: a verdict on whether a quantized model may replace the original.

- `command`: the command line.
- `decisions`: three tiers and their verdict, from figures alone.
- `statistics`: exact paired tests over conversations.
- `scoring`, `models`: the figures, from models run in process as a server would compute them.
"""
