"""Maintenance of the requirements locks: their hashes, and the licences of what they install."""
