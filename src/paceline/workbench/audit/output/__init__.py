"""The report of an audit: a JSON document, and lines for a terminal.

For other rooms: `render_document`, `render_lines`.
"""
