"""Show a tuning: progress while it runs, lines for a terminal, a JSON document.

For other rooms: `tune_progress`, `render_lines`, `render_document`, `Context`.
"""

from paceline.workbench.tune.output.document import Context, render_document
from paceline.workbench.tune.output.lines import render_lines
from paceline.workbench.tune.output.progress import tune_progress

__all__ = ["Context", "render_document", "render_lines", "tune_progress"]
