"""What rows are written as."""
