"""Set the governors of a running server through Paceline's admin port, and set them back.

`switch` is what other rooms use; `settings` decides from the port's answers, `page` is the HTTP.
"""
