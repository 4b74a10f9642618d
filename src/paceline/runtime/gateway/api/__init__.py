"""API: the data port as an ASGI application, and its OpenAPI description.

Other packages use `data_app.DataApp`.
"""
