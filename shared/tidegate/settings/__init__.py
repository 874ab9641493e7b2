"""Settings: ``tidegate.toml``, ``TIDEGATE_…`` variables and flags, read once and checked at once.

A package types its own section as a ``Section`` and registers it as an entry point of the group
``tidegate.settings``; ``docs/settings.md`` lists every key.
"""

from tidegate.settings.loading import Settings, load_settings
from tidegate.settings.objective import LatencyObjective
from tidegate.settings.sections import Section

__all__ = ["LatencyObjective", "Section", "Settings", "load_settings"]
