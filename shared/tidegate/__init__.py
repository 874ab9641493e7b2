"""Shared by both services: artifacts, objects, inference, settings, the command line."""

__version__ = "0.1.0"
