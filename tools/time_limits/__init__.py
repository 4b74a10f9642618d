"""The page of all time limits, generated from the code."""
