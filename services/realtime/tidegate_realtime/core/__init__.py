"""What to run, when, and how each request ends: decided from values and ``now_ns`` alone."""
