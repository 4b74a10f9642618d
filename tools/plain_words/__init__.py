"""A check of prose: words that this project does not use, with what to write instead."""
