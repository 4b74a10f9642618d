"""The target's own answers to the user's prompts, generated once and kept on disk.

For other rooms: `collect_answers`, `AnswerFile`, and `load_engine` for answers made in vLLM.
"""

from paceline.draft.answers.answer_file import AnswerFile
from paceline.draft.answers.collect import AnswerRequest, Engine, collect_answers
from paceline.draft.answers.engine_generation import load_engine

__all__ = ["AnswerFile", "AnswerRequest", "Engine", "collect_answers", "load_engine"]
