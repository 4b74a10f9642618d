"""EAGLE-3 heads through the package speculators, on machines with GPUs.

An EAGLE-3 head reads hidden states of the target, so it cannot be measured offline like a draft
model: its acceptance is known once it is served. For other rooms: the names below.
"""

from paceline.workbench.draft.eagle3.plan import Eagle3Plan, parse_gpus
from paceline.workbench.draft.eagle3.run import check_run, execute_run, script_of

__all__ = ["Eagle3Plan", "check_run", "execute_run", "parse_gpus", "script_of"]
