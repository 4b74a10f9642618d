"""Everyday requests to an assistant: explain, write, and edit a given text, in turn."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from paceline.foundation.workloads.prompts import Prompt, shuffle_prompts
from paceline.foundation.workloads.workload import TextKind

MAX_ANSWER_TOKENS = 96
_TOPICS = (
    "how rain forms", "compound interest", "the French Revolution", "how vaccines work",
    "black holes", "the rules of chess", "how a bicycle stays upright", "photosynthesis",
    "the causes of inflation", "how the internet finds a web page", "plate tectonics",
    "the difference between weather and climate",
)  # fmt: skip
_EXPLAIN = (
    "Explain {topic} to a ten-year-old.",
    "What are the most important facts about {topic}?",
    "Write three quiz questions about {topic}, with their answers.",
)
_WRITE = (
    "Write a short story about {subject}.",
    "Write a polite e-mail about {subject}.",
    "Give me five ideas for a blog post about {subject}.",
)
_SUBJECTS = (
    "a lost umbrella", "moving to another city", "a late delivery", "the first day at school",
    "a broken dishwasher", "a birthday party", "learning the piano", "a night on a train",
    "a neighbour's dog", "planting a garden", "a job interview", "a holiday in the mountains",
)  # fmt: skip
_EDIT = (
    "Repeat this text, and correct its spelling where it is wrong.\n\n{text}",
    "Rewrite this text as a bulleted list, with the same words.\n\n{text}",
    "Summarize this text in two sentences.\n\n{text}",
)
"""Answers to most of these copy from the prompt, as in summaries and corrections of users."""
_TEXTS = (
    "The library opens at nine on weekdays and at ten on Saturdays. Books may be borrowed for four "
    "weeks, films for one week. A reader who is late pays twenty cents for each day.",
    "Our team met on Tuesday to plan the summer festival. Anna will book the band, Piotr asks the "
    "city for the permit, and Mei orders drinks for two hundred guests.",
    "To make the soup, fry one onion in butter, add four carrots and some stock, and cook for "
    "twenty minutes. Then blend it and serve it with bread and a spoon of cream.",
    "The new bridge is four hundred metres long and carries two lanes of cars and one of bicycles. "
    "It cost eighty million euros and was built in three years.",
    "Penguins live in the southern half of the world. They cannot fly, but they swim up to thirty "
    "kilometres an hour and dive for fish, squid and krill.",
    "Please water the plants on Monday and Thursday, feed the cat every morning, and put the bins "
    "out on Wednesday evening. The spare key is with Mrs. Novak next door.",
    "The printer prints twenty pages a minute and connects by cable or radio. When the red light "
    "blinks, its paper is used up; when it stays on, a page is stuck.",
    "Marie Curie was born in Warsaw in 1867 and studied in Paris. She discovered two elements, "
    "polonium and radium, and was given two Nobel prizes.",
    "The hotel has forty rooms, a garden and a small pool. Breakfast is served from seven to ten, "
    "and guests may leave their bags at the desk after they check out.",
    "Water boils at one hundred degrees at the level of the sea. On a high mountain the air is "
    "thinner, so it boils at a lower temperature and food takes longer to cook.",
    "The course has ten lessons of ninety minutes on Wednesday evenings. It needs no experience, "
    "and everything that is used in it is part of the price.",
    "Two trains leave the station every hour. The fast one stops twice and takes fifty minutes; "
    "the slow one stops eleven times and takes an hour and a half.",
)


@dataclass(frozen=True, slots=True)
class ChatWorkload:
    """Equal shares of the three kinds, in any stretch of a run."""

    name: str = "chat"
    description: str = "chat: explain a topic, write a short text, edit a given text, in turn"
    temperature: float = 0.0
    text_kind: TextKind | None = None

    def prompts(self, seed: int) -> list[Prompt]:
        columns = [
            shuffle_prompts([_chat(task, text) for text in texts], seed)
            for task, texts in (
                ("explain", _filled(_EXPLAIN, "topic", _TOPICS)),
                ("write", _filled(_WRITE, "subject", _SUBJECTS)),
                ("edit", _filled(_EDIT, "text", _TEXTS)),
            )
        ]
        return [prompt for row in zip(*columns, strict=True) for prompt in row]


def _filled(forms: tuple[str, ...], name: str, values: tuple[str, ...]) -> list[str]:
    return [form.format(**{name: value}) for form, value in itertools.product(forms, values)]


def _chat(task: str, text: str) -> Prompt:
    return Prompt(task, ({"role": "user", "content": text},), None, MAX_ANSWER_TOKENS)


WORKLOAD = ChatWorkload()
