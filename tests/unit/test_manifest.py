from pathlib import Path

import msgspec
import pytest

from tidegate.artifacts.aliases import KEPT_WRITE_IDS, NO_ALIASES, dump_aliases, load_aliases
from tidegate.artifacts.manifest import Manifest, dump_manifest, load_manifest
from tidegate.errors import ArtifactError
from tidegate.ids import digest_of

FIXTURE = Path(__file__).parents[1] / "fixtures" / "manifest-schema-1.json"


def released() -> Manifest:
    return load_manifest(FIXTURE.read_bytes(), where="risk@1")


def test_a_manifest_of_schema_1_loads_for_ever() -> None:
    manifest = released()
    assert (manifest.name, manifest.version, manifest.batch_axis) == ("risk", 1, "free")
    assert manifest.signature.inputs[0].shape == (-1, 3)
    assert manifest.transforms.labels is not None
    assert manifest.transforms.labels.names == ("benign", "malignant")


def test_the_bytes_of_a_manifest_are_canonical_so_that_its_digest_never_changes() -> None:
    assert dump_manifest(released()) == FIXTURE.read_bytes()
    assert (
        digest_of(FIXTURE.read_bytes())
        == "sha256:a4b5fad83b9746830bca4a3973bf2c50065317fd4a84387466ee6922f09eea8c"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema": 2}, "schema"),
        ({"surprise": 1}, "surprise"),
        ({"name": "../etc"}, "no model name"),
        ({"files": {"../../x": {"sha256": "0", "bytes": 1}}}, "leads out"),
        ({"files": {"/etc/passwd": {"sha256": "0", "bytes": 1}}}, "leads out"),
        ({"files": {"a\\b": {"sha256": "0", "bytes": 1}}}, "leads out"),
        ({"variants": {"default": "absent.onnx"}}, "listed files"),
        ({"variants": {}}, "listed files"),
        ({"batch_axis": "maybe"}, "batch_axis"),
    ],
)
@pytest.mark.field_fault("P-27")
def test_a_manifest_that_means_nothing_is_refused(change: dict[str, object], reason: str) -> None:
    document = msgspec.json.decode(FIXTURE.read_bytes())
    changed = msgspec.json.encode({**document, **change})
    with pytest.raises(ArtifactError, match=reason):
        load_manifest(changed, where="risk@1")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"schema":1}'])
def test_a_manifest_that_is_no_manifest_is_refused_naming_the_version(content: bytes) -> None:
    with pytest.raises(ArtifactError, match="risk@1"):
        load_manifest(content, where="risk@1")


def test_aliases_keep_their_revision_and_only_the_last_writers() -> None:
    aliases = NO_ALIASES
    for number in range(KEPT_WRITE_IDS + 4):
        aliases = aliases.moved("stable", 7 + number % 2, write_id=f"w{number}")
    assert aliases.revision == KEPT_WRITE_IDS + 4
    assert len(aliases.write_ids) == KEPT_WRITE_IDS
    assert aliases.write_ids[0] == "w19"
    assert load_aliases(dump_aliases(aliases), where="risk") == aliases


def test_moving_an_alias_there_and_back_gives_other_bytes() -> None:
    there = NO_ALIASES.moved("stable", 7, write_id="a")
    back = there.moved("stable", 8, write_id="b").moved("stable", 7, write_id="c")
    assert dump_aliases(there) != dump_aliases(back)
