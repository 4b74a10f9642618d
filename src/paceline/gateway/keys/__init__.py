"""Who may use the gateway: API keys, the admin key, and what sets tenants apart.

`key_text` is the form of a key, `record` a line of the file, `ring` the decision; `file` reads and
writes, `salt` keeps tenants apart in the engines' caches, `access` is what the two ports ask.
"""
