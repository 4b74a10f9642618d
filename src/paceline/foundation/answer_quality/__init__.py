"""Scores of answers, and verdicts from them with a bounded error."""
