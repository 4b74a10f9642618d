"""Checks of the output: losslessness of speculation, and quality on the user's prompts."""
