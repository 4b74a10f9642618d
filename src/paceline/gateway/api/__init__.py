"""API: the data port as an ASGI application, and its OpenAPI description.

Other rooms use `data_app.DataApp`.
"""
