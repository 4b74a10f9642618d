"""The target's own answers to the user's prompts, generated once and kept on disk.

For other rooms: `load_target`, `collect_answers` and `AnswerFile`.
"""

from paceline.foundation.models.answers.answer_file import AnswerFile
from paceline.foundation.models.answers.collect import (
    AnswerRequest,
    Engine,
    collect_answers,
    load_target,
)

__all__ = ["AnswerFile", "AnswerRequest", "Engine", "collect_answers", "load_target"]
