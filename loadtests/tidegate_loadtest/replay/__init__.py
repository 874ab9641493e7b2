"""Sends recorded or generated traffic to a running server, and measures what becomes of it.

An open loop: requests leave at their instants, however slow the answers are. Latency is counted
from the instant at which a request *should* have left, so that a server that stalls is charged for
everybody whom it kept waiting ("coordinated omission" otherwise). What the client itself sent too
late is counted, and a run in which that was usual says nothing about the server.
"""
