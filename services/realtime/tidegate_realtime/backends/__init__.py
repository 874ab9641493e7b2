"""What runs a batch: one module per backend, each behind ``runtime.ports.Backend``."""
