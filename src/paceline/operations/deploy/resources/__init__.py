"""One module per kind of resource: pure functions from the values of a deployment to dictionaries.

`naming` and `pods` hold what the others share.
"""
