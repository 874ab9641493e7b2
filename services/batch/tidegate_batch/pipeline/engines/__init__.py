"""What runs worker processes; the same scorer and the same messages in each.

Messages are JSON. Nothing of ours is pickled: Ray pickles what it carries itself, and that is
bytes.
"""
