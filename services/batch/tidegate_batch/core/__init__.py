"""Decisions of the offline path: no clock, no store, no process in here.

``planning`` cuts inputs into chunks, ``chunks`` says who scores which, ``states`` and ``lease``
say who may move a job, ``records`` are the formats that a job leaves in the store.
"""
