"""One minute, one plain answer: `paceline bench quick`.

Decisions: `levels` (which concurrency to try next), `estimate` (the concurrency that the server
holds, with its interval), `gain_ratio`. Shells: `window` (one concurrency for some seconds),
`speculation` (blocks with it and without), `measure`, `command`.
"""
