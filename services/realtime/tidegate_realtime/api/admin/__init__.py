"""The operators' listener, on loopback: documentation, metrics and health.

FastAPI carries it, and is imported only once the public listener answers.
"""
