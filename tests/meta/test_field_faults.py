"""The ids of field faults are written in one way, so that a search for one finds every test."""

import re

from tests.project import ROOT

MARKER = re.compile(r"\bfield_fault\(([^)]*)\)")
ID = re.compile(r'"[SPBK]-\d\d"')


def test_each_id_is_the_letter_of_its_series_and_two_digits() -> None:
    found = [
        (file.name, name.strip())
        for file in (ROOT / "tests").rglob("test_*.py")
        for ids in MARKER.findall(file.read_text(encoding="utf-8"))
        for name in ids.split(",")
    ]
    assert len(found) > 100
    assert [each for each in found if not ID.fullmatch(each[1])] == []
