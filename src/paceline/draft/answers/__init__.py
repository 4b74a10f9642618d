"""The target's own answers to the user's prompts, generated once and kept on disk.

For other rooms: `collect_answers` and `AnswerFile`.
"""

from paceline.draft.answers.answer_file import AnswerFile
from paceline.draft.answers.collect import AnswerRequest, collect_answers

__all__ = ["AnswerFile", "AnswerRequest", "collect_answers"]
