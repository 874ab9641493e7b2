"""What ``docs/scheduling.md`` names is there."""

import re
from importlib import import_module

import pytest

from tests.project import ROOT
from tidegate.profiles.loading import bundled_profiles
from tidegate_loadtest.proof.comparing import OBJECTIVES_MS
from tidegate_loadtest.proof.document import BEGIN, END

PAGE = (ROOT / "docs/scheduling.md").read_text(encoding="utf-8")
WALK = PAGE.partition("## One request")[2].partition("\n## ")[0]
NAMES = sorted(set(re.findall(r"`((?:api|runtime|core|backends)\.[\w.]+)`", WALK)))
TABLE = PAGE.partition(BEGIN)[2].partition(END)[0]


def found(name: str) -> object:
    """Import as much of a dotted name as is a module, and look the rest up in it."""
    parts = ["tidegate_realtime", *name.split(".")]
    for length in range(len(parts), 0, -1):
        try:
            thing: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            thing = getattr(thing, part)
        return thing
    raise AssertionError(name)


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_the_walk_through_one_request_exists(name: str) -> None:
    assert found(name) is not None


def test_the_walk_goes_from_arrival_to_reply() -> None:
    assert len(NAMES) > 20
    assert NAMES.index("api.endpoint.Endpoint.answer") >= 0
    assert NAMES.index("api.forms.InferForm.encode") >= 0


def test_the_table_compares_every_bundled_profile_on_every_curve() -> None:
    curves = [file.stem for file in (ROOT / "loadtests/curves").iterdir()]
    missing = [
        f"{profile} on {curve}"
        for profile in bundled_profiles()
        for curve in curves
        if not re.search(
            rf"^\| {re.escape(profile)}, [\d.,]+ ms \| {curve} \|", TABLE, re.MULTILINE
        )
    ]
    assert missing == []


def test_every_bundled_profile_has_an_objective_with_a_reason() -> None:
    assert set(OBJECTIVES_MS) == set(bundled_profiles())
