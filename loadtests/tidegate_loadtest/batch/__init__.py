"""Offline jobs beside other ways to score the same files with the same model.

``work`` writes models and rows, ``contenders`` says how each scores them, ``measuring`` runs them
in turns and counts what they wrote, ``job`` reads where a job's time went. ``judging`` takes
medians and holds them to targets, ``picture`` draws them. The programs of others lie in
``loadtests/peers``.
"""
