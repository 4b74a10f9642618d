"""The built-in policies, one module each; `builtin` finds them."""
