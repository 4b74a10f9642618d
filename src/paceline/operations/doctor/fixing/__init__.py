"""Change what can be changed at run time, and keep it only if it helps."""
