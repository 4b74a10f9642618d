"""Load a model as a server would compute it, and the baseline rounded to the same format.

For other rooms: `Format`, `read_format`, `load_variant`, `round_model`.
"""

from paceline.workbench.quality.models.formats import Format, read_format
from paceline.workbench.quality.models.rounding import round_model
from paceline.workbench.quality.models.variant import load_variant

__all__ = ["Format", "load_variant", "read_format", "round_model"]
