"""The shifting-acceptance trace: phases of load and text that hold an engine to a standard.

For other packages: `find_trace` reads a published trace or a file, `draw_request` says what the
n-th request of a phase is, and `values` holds the trace itself. docs/reference/shifting-trace.md
documents the format. Values and pure functions, except for reading the file.
"""

from paceline.foundation.shifting_trace.draws import RequestDraw, draw_request
from paceline.foundation.shifting_trace.published import find_trace, published_names
from paceline.foundation.shifting_trace.values import (
    Category,
    Script,
    ShiftingTrace,
    TextSource,
    TokenRange,
    TracePhase,
)

__all__ = [
    "Category",
    "RequestDraw",
    "Script",
    "ShiftingTrace",
    "TextSource",
    "TokenRange",
    "TracePhase",
    "draw_request",
    "find_trace",
    "published_names",
]
