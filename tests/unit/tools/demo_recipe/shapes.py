"""Model shapes that train in seconds."""

from __future__ import annotations

from demo_recipe.model import Shape

TINY = Shape(hidden_size=64, num_layers=2, num_kv_heads=1, intermediate_size=96)
