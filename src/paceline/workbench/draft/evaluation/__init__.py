"""`paceline draft eval`: acceptance of a draft on the user's prompts, without a server.

For other rooms: `evaluate` and its options, `render_document`, `render_lines`, `figure_lines`.
"""

from paceline.workbench.draft.evaluation.evaluate import Evaluation, EvaluationOptions, evaluate
from paceline.workbench.draft.evaluation.report import figure_lines, render_document, render_lines

__all__ = [
    "Evaluation",
    "EvaluationOptions",
    "evaluate",
    "figure_lines",
    "render_document",
    "render_lines",
]
