"""Facts about what fits together: draft and target, vocabularies, number format and processor.

Values and pure functions that every part may import; it imports no other part.
"""
