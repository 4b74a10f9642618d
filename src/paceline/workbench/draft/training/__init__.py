"""`paceline draft train`: distil a draft on the target's answers, and promote it on a proven gain.

For other rooms: `train` with its options and result, and `TrainingPlan`.
"""

from paceline.workbench.draft.training.distil import TrainingPlan
from paceline.workbench.draft.training.provenance import FILE_NAME, Comparison
from paceline.workbench.draft.training.train import TrainOptions, TrainResult, train

__all__ = [
    "FILE_NAME",
    "Comparison",
    "TrainOptions",
    "TrainResult",
    "TrainingPlan",
    "train",
]
