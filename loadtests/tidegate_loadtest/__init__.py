"""Load tests that decide with the gateway's own core: traffic, and a day of it in seconds."""
