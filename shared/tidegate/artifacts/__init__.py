"""Immutable model versions: their manifest, their place in the store, and the aliases."""
