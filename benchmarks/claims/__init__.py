"""Check that the figures in README.md and docs/ equal what their raw results give.

A module in `documents/` lists the claims of one document: the text as printed, with a field for
every figure, and the computation of each figure from a raw result. `checking` compares them with
the document, and reports every other number in a section that links a raw result.
"""
