"""Holds the scheduler to its targets: in the simulator, and in a gateway that runs here.

``targets`` says what a figure must be, ``simulated`` and ``live`` measure, ``stress`` makes a
model slow, callers impatient and batches fail, ``comparing`` sets policies against each other on
every curve and profile. ``tools/bench-scheduler`` runs it all; targets are never moved by it.
"""
