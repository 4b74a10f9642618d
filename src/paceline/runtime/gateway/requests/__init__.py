"""Requests: the routes, their allowed fields and values, and the checks of one request's body.

Pure: from bytes and settings to a `CheckedRequest` or a `Refusal`. Other packages start from
`routes.ROUTES` and `validation.check_request`.
"""
