"""The built-in policies, one module each; `builtin` lists them."""
