"""docs/batch-formats.md names the formats, endings and codes that there are."""

import re

from tests.project import ROOT
from tidegate_batch.core.formats import INPUT_FORMATS, NAMES, OUTPUT_FORMATS, endings_of
from tidegate_batch.sources.dialect import MALFORMED, MISSING, WRONG_TYPE

DOCUMENT = (ROOT / "docs/batch-formats.md").read_text()
ROWS = [line.split("|")[1:-1] for line in DOCUMENT.splitlines() if line.startswith("| ")]


def test_every_format_is_documented_with_its_endings() -> None:
    documented = {row[0].strip(): set(re.findall(r"`(\.[a-z.]+)`", row[1])) for row in ROWS}
    for kind in INPUT_FORMATS:
        plain = {ending for ending in endings_of(kind) if not ending.endswith(".gz")}
        assert documented[NAMES[kind]] - {".gz", ".csv.gz"} == plain
    assert {f"`{kind}`" for kind in OUTPUT_FORMATS} <= documented.keys()


def test_every_reason_of_a_bad_row_is_documented() -> None:
    documented = {row[0].strip() for row in ROWS}
    assert {f"`{code}`" for code in (MALFORMED, WRONG_TYPE, MISSING)} <= documented
