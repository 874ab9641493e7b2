"""The gateway's own scheduler on a virtual clock, and others to compare it with.

``simulator`` turns the clock, ``policies`` decide, ``recording`` keeps what happened, ``result``
adds it up. Nothing here reads a clock; a seed and a list of arrivals give the same run every time.
Before it is believed it is held to closed forms: ``tests/simulation``.
"""
