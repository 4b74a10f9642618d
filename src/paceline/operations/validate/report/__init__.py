"""The report of a validation: its document and schema, signature, lines, page and comparison."""
