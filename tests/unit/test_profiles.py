"""Profiles: what a file may say, what it means, and what is refused with which words."""

import math
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.project import ROOT
from tidegate.profiles import (
    LatencyProfile,
    Linear,
    ProfileError,
    Table,
    bundled_profiles,
    dump_profile,
    load_profile,
    parse_profile,
)

FIXTURE = ROOT / "tests/fixtures/latency-profile-schema-1.json"
PAGE = (ROOT / "docs/profiles.md").read_text(encoding="utf-8")


def released() -> LatencyProfile:
    return load_profile(str(FIXTURE))


def test_a_profile_of_schema_1_loads_for_ever() -> None:
    profile = released()
    assert profile.allowed_sizes == (1, 4)
    assert profile.largest_size == 4
    assert profile.noise is not None
    assert profile.noise.cv == 0.1
    assert profile.stalls is not None
    assert profile.stalls.duration_ms == 250
    assert [(step.at_s, step.factor) for step in profile.drift] == [(20, 2), (40, 1)]
    assert profile.origin.status == "measured"


def test_the_documented_profile_can_be_read() -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert parse_profile(example.encode(), where="docs/profiles.md").largest_size == 32


def test_between_measured_sizes_is_a_straight_line_and_below_the_smallest_a_level_one() -> None:
    profile = released()
    assert [profile.mean_ns(rows) for rows in (1, 2, 3, 4)] == [
        2_000_000,
        3_000_000,
        4_000_000,
        5_000_000,
    ]
    law = Table(sizes=profile.law.sizes[1:] if isinstance(profile.law, Table) else ())
    fixed = msgspec.structs.replace(profile, law=law)
    assert fixed.mean_ns(1) == fixed.mean_ns(4) == 5_000_000


def test_the_spread_is_the_tables_own_unless_the_profile_says_otherwise() -> None:
    profile = released()
    assert profile.std_ns(4) == 500_000
    measured = msgspec.structs.replace(profile, noise=None)
    assert [measured.std_ns(rows) for rows in (1, 4)] == [100_000, 0]


def test_nothing_is_said_of_more_rows_than_were_measured() -> None:
    for ask in (released().mean_ns, released().std_ns):
        with pytest.raises(ProfileError, match="measured for 1 to 4 rows and says nothing of 5"):
            ask(5)
        with pytest.raises(ProfileError, match="rows: expected 1 or more, found 0"):
            ask(0)


def test_a_line_of_two_numbers_allows_every_size() -> None:
    profile = load_profile("linear:1.053:5.072")
    assert profile.name == "linear:1.053:5.072"
    assert profile.allowed_sizes is None
    assert profile.largest_size is None
    assert [profile.mean_ns(rows) for rows in (1, 1_000)] == [6_125_000, 1_058_072_000]
    assert profile.std_ns(7) == 0


@pytest.mark.parametrize(
    "text", ["linear:", "linear:1", "linear:1:2:3", "linear:x:1", "linear:-1:5", "linear:nan:1"]
)
def test_a_line_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ProfileError, match=r"linear:ALPHA_MS:BETA_MS.*such as linear:1\.053:5"):
        load_profile(text)


@pytest.mark.parametrize("name", bundled_profiles())
def test_every_bundled_profile_has_its_name_source_hardware_and_date(name: str) -> None:
    profile = load_profile(name)
    origin = profile.origin
    assert profile.name == name
    assert origin.status in {"verified", "cross-validated"}
    assert all((origin.source, origin.hardware, origin.model))
    assert re.fullmatch(r"20\d\d", origin.date)
    assert profile.mean_ns(1) > 0
    assert f"| `{name}` | {origin.model} | {origin.hardware} |" in PAGE


def test_the_bundled_profiles_are_all_that_the_page_lists() -> None:
    assert tuple(re.findall(r"^\| `([\w-]+)` \| .*(?:ed) \|$", PAGE, re.MULTILINE)) == (
        bundled_profiles()
    )


@pytest.mark.parametrize(
    ("name", "rows", "ms"),
    [  # Inoue, Table 1: 128 rows at 6,291 images/s; Clockwork and Nexus: their own measurements
        ("v100-resnet50", 128, 128 / 6.291),
        ("v100-resnet50-clockwork", 16, 21.729),
        ("titanx-vgg16", 32, 106.978),
        ("gtx1080ti-resnet50", 16, 21.92),
    ],
)
def test_bundled_profiles_say_what_was_published(name: str, rows: int, ms: float) -> None:
    assert load_profile(name).mean_ns(rows) == pytest.approx(ms * 1e6, rel=0.01)


def test_a_name_that_is_not_there_names_the_nearest_and_all() -> None:
    with pytest.raises(ProfileError) as raised:
        load_profile("v100-resnet")
    message = str(raised.value)
    assert "Did you mean 'v100-resnet50'?" in message
    assert all(name in message for name in bundled_profiles())


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="cannot be read: Is a directory"):
        load_profile(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, r"Invalid enum value 2 - at `\$\.schema`"),
        ({"surprise": 1}, "unknown field `surprise`"),
        ({"law": {"kind": "quadratic"}}, r"'quadratic' - at `\$\.law\.kind`"),
        ({"law": {"kind": "linear", "alpha_ms": 1}}, "missing required field `beta_ms`"),
        (
            {"law": {"kind": "linear", "alpha_ms": "1", "beta_ms": 1}},
            r"Expected `float`, got `str` - at `\$\.law\.alpha_ms`",
        ),
        (
            {"law": {"kind": "linear", "alpha_ms": -1, "beta_ms": 2}},
            r"alpha_ms: expected 0 or more, found -1\.0 - at `\$\.law`",
        ),
        (
            {"law": {"kind": "linear", "alpha_ms": 0, "beta_ms": 0}},
            r"alpha_ms \+ beta_ms: expected above 0, found 0\.0",
        ),
        ({"law": {"kind": "table", "sizes": []}}, r"sizes: expected at least one, found \[\]"),
        (
            {"law": {"kind": "table", "sizes": [{"rows": 2, "mean_ms": 1}] * 2}},
            r"sizes: expected rising numbers of rows, found \[2, 2\]",
        ),
        (
            {"law": {"kind": "table", "sizes": [{"rows": 0, "mean_ms": 1}]}},
            r"rows: expected 1 or more, found 0 - at `\$\.law\.sizes\[0\]`",
        ),
        (
            {"law": {"kind": "table", "sizes": [{"rows": 1, "mean_ms": 0}]}},
            "mean_ms: expected above 0, found 0",
        ),
        (
            {"law": {"kind": "table", "sizes": [{"rows": 1, "mean_ms": 1, "std_ms": -1}]}},
            "std_ms: expected 0 or more, found -1",
        ),
        ({"noise": {"cv": -0.1}}, r"cv: expected 0 or more, found -0\.1 - at `\$\.noise`"),
        ({"stalls": {"probability": 2, "duration_ms": 1}}, "probability: expected 0 to 1, found 2"),
        ({"stalls": {"probability": 0, "duration_ms": -1}}, "duration_ms: expected 0 or more"),
        ({"drift": [{"at_s": -1, "factor": 1}]}, "at_s: expected 0 or more, found -1"),
        ({"drift": [{"at_s": 1, "factor": 0}]}, "factor: expected above 0, found 0"),
        (
            {"drift": [{"at_s": 2, "factor": 1}, {"at_s": 1, "factor": 2}]},
            r"drift: expected at_s in rising order, found \[2\.0, 1\.0\]",
        ),
        ({"origin": {"status": "guessed", "source": "", "date": ""}}, "'guessed'"),
    ],
)
def test_a_file_that_means_nothing_is_refused_naming_file_field_expected_and_found(
    change: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    document = msgspec.json.decode(FIXTURE.read_bytes())
    file = tmp_path / "mine.json"
    file.write_bytes(msgspec.json.encode({**document, **change}))
    with pytest.raises(ProfileError, match=reason) as raised:
        load_profile(str(file))
    assert str(raised.value).startswith(f"{file} is no latency profile: ")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"schema":1}'])
def test_a_file_that_is_no_profile_is_refused(content: bytes) -> None:
    with pytest.raises(ProfileError, match=r"mine\.json is no latency profile"):
        parse_profile(content, where="mine.json")


def test_writing_and_reading_gives_the_same_profile() -> None:
    for profile in (released(), *map(load_profile, bundled_profiles())):
        assert parse_profile(dump_profile(profile), where="again") == profile


def test_a_line_refuses_what_json_cannot_even_say() -> None:
    with pytest.raises(ValueError, match="alpha_ms: expected 0 or more, found inf"):
        Linear(alpha_ms=math.inf, beta_ms=1)
