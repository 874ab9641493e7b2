"""The edge: HTTP in and out, under whichever server, and nothing that decides about a batch.

``endpoint`` answers every public request without a framework; ``rsgi`` and ``asgi`` carry it under
granian and uvicorn, ``sweeper`` watches over what waits, ``admin`` is the operators' listener.
"""
