"""Ways to form batches, one interface: ours, and those that others have published or ship."""
