"""Generated examples are the same in every run; `make test-slow` tries others."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeated", derandomize=True, deadline=None)
settings.register_profile("random", max_examples=500, deadline=None)
settings.load_profile("repeated")
