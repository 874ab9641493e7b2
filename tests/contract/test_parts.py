"""``tools/parts``: the real servers start for tests and never outlive them."""

import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from tests.fixtures.stores import ROOT, require_part

PARTS = str(ROOT / "tools/parts")


def test_a_part_ends_with_the_input_of_who_started_it() -> None:
    require_part("versitygw")
    ran = subprocess.run(
        [sys.executable, PARTS, "run", "versitygw"],
        input="",
        capture_output=True,
        text=True,
        check=True,
    )
    *exports, ready = ran.stdout.splitlines()
    assert ready == "# ready"
    environment = dict(line.removeprefix("export ").split("=", 1) for line in exports)
    where = urlsplit(environment["AWS_ENDPOINT_URL"])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((where.hostname or "", where.port or 0))


def test_an_unknown_part_is_said_with_those_there_are() -> None:
    ran = subprocess.run(
        [sys.executable, PARTS, "start", "mainframe"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert "'mainframe' (choose from" in ran.stderr
    assert "versitygw" in ran.stderr
