"""The operators' listener, on loopback: documentation, metrics and health.

FastAPI carries it; nothing on the public listener's way imports it.
"""
