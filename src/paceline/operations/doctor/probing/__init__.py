"""Send a bounded load, and switch speculation, so that more can be judged."""
