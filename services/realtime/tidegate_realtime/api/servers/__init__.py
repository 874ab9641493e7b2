"""The servers that can carry the endpoint; ``tidegate_realtime.main`` picks one."""
