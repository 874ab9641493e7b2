"""When requests arrive: seeded processes, rate curves and recorded traces.

Everything here ends as one array of instants (``port.Arrivals``), so that the same traffic can be
simulated, sent to a gateway and repeated.
"""
