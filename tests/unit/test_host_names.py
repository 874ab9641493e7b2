"""What may be allowed as a name of a listener is what a request can address it by, and no more."""

import pytest

from tidegate_realtime.api.host_names import is_host_name, name_of_host

NAMES = ["api.example", "API-2.example", "192.0.2.7", "localhost", "[::1]", "[fe80::1.2.3.4]", "_a"]
NONE = ["", "a b", "a/b", "a@b", "[::1", "::1", "[]", "ä.example", "a,b", "a\n", "[::g]"]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_a_setting_takes_is_found_in_a_request_with_and_without_a_port(
    name: str,
) -> None:
    assert is_host_name(name)
    assert [name_of_host(host) for host in (name, f"{name}:8000")] == [name.lower()] * 2
    assert name_of_host(f"{name}:port") is None


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_name_is_one_in_neither_place(text: str) -> None:
    assert not is_host_name(text)
    assert [name_of_host(host) for host in (text, f"{text}:80")] == [None, None]


def test_a_setting_has_no_port() -> None:
    assert not is_host_name("api.example:8000")
