"""Checks of the OpenAI API: answers, streams, token counts, limits and refusals."""
