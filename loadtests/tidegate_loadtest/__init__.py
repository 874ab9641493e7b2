"""Load tests that decide with the gateway's own core; nothing here yet but the place."""
