"""What a job does, step by step; every step may be repeated by anyone, after any crash.

``submission`` makes a job, ``driving`` moves it on, ``scoring`` is what a worker does with a
chunk, ``publishing`` lets the output appear, ``watching`` and ``verifying`` only look.
"""
