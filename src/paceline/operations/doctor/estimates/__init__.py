"""Estimates of what drafts cost and gain, with their intervals. Pure."""
