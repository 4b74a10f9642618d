"""Models in torch: prompts, answers, drafters, heads and what of their drafts is accepted."""
