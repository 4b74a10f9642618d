"""Render a diagnosis: lines for people, a document for programs."""
