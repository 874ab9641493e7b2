"""Tidegate beside other servers: the same model and the same requests, one server at a time.

``work`` makes the models and requests, ``servers`` says how each server starts, ``wrk`` and
``h2load`` drive it, ``bare`` times the model without any server. ``judging`` takes medians and
holds them to targets, ``picture`` draws them. What the other servers run lies in
``loadtests/peers``.
"""
