from tidegate_realtime.api.servers.connections import ConnectionLimits, Connections


def test_connections_are_counted_in_all_and_by_address() -> None:
    connections = Connections(ConnectionLimits(all=3, per_address=2))
    assert connections.enter("a")
    assert connections.enter("a")
    assert not connections.enter("a")
    connections.leave("a")  # the refused one closes too
    assert connections.enter("b")
    assert not connections.enter("c")
    connections.leave("c")
    connections.leave("a")
    assert connections.enter("c")


def test_an_address_that_has_gone_leaves_nothing_behind() -> None:
    connections = Connections(ConnectionLimits())
    for number in range(1_000):
        connections.enter(str(number))
        connections.leave(str(number))
    assert not connections._by_address
