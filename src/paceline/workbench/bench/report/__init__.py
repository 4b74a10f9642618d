"""One self-contained HTML page from the JSON of `paceline bench run` or `paceline bench compare`.

For other packages: `page.render_report`, `page.write_report` and `page.ReportError`.
"""
