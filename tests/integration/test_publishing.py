"""Publishing on a real directory store: what is refused, what is written, and in which order."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.fixtures import onnx_models
from tidegate.artifacts.layout import config_key, manifest_key, version_prefix
from tidegate.artifacts.local import copy_files
from tidegate.artifacts.manifest import PublishedVersion
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.errors import (
    AliasMovedError,
    ArtifactError,
    DigestMismatchError,
    ModelNotFoundError,
    PartUnavailableError,
)
from tidegate.ids import Alias, ModelName, ModelRef, Version
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish

NAME = ModelName("m")
STABLE = Alias("stable")


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(LocalObjectStore(tmp_path / "store"))


def put(
    store: ArtifactStore, file: Path, transform: Path | None = None, alias: Alias | None = None
) -> PublishedVersion:
    candidate = Candidate(name=NAME, file=file, transform=transform, alias=alias)
    return publish(store, candidate, clock=SystemClock())


def load(store: ArtifactStore, ref: str, cache: Path) -> Model:
    return open_model(store, ModelRef.parse(ref), cache=cache, threads=1)


def test_a_published_model_can_be_opened_by_alias_and_answers(
    store: ArtifactStore, tmp_path: Path
) -> None:
    published = put(store, onnx_models.scale(tmp_path / "m.onnx", by=3), alias=STABLE)
    model = load(store, "m@stable", tmp_path / "cache")
    assert model.tag == published.tag
    inputs = model.tensors_from_instances([[1, 2]])
    answer = model.present(model.run(inputs), inputs)
    assert answer["prediction"].tolist() == [[3, 6]]


def test_the_next_version_gets_the_next_number_and_the_old_one_stays(
    store: ArtifactStore, tmp_path: Path
) -> None:
    for by in (2, 3):
        put(store, onnx_models.scale(tmp_path / "m.onnx", by=by))
    assert store.versions(NAME) == [1, 2]
    answers = [
        load(store, f"m@{version}", tmp_path).run({"input": np.ones((1, 2), np.float32)})
        for version in (1, 2)
    ]
    assert [answer["output"].tolist() for answer in answers] == [[[2, 2]], [[3, 3]]]


def test_the_configuration_for_triton_names_the_published_versions_alone(
    store: ArtifactStore, tmp_path: Path
) -> None:
    for _ in range(2):
        put(store, onnx_models.echo(tmp_path / "m.onnx"))
    store.objects.put_if_absent(version_prefix(NAME, 3) + "claim.json", b"{}")  # half-published
    stored = store.objects.get(config_key(NAME))
    assert stored is not None
    text = stored.body.decode()
    assert "versions: [1, 2] " in text
    assert 'name: "input" data_type: TYPE_FP32 dims: [2]' in text
    assert text.startswith("# tidegate revision 2 ")


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (onnx_models.scalar_input, "leading dimension"),
        (onnx_models.reshapes_to_one_row, "free batch axis"),
    ],
)
def test_a_model_that_cannot_be_batched_is_refused_and_nothing_is_written(
    store: ArtifactStore, tmp_path: Path, build: type, reason: str
) -> None:
    with pytest.raises(ArtifactError, match=reason):
        put(store, build(tmp_path / "m.onnx"))
    assert list(store.objects.keys("")) == []


def test_a_fixed_batch_axis_is_found(store: ArtifactStore, tmp_path: Path) -> None:
    published = put(store, onnx_models.echo_fixed_rows(tmp_path / "m.onnx", rows=4))
    assert published.manifest.batch_axis == "fixed"
    assert published.manifest.batch_invariance.measured == 0.0


def test_a_model_whose_answers_depend_on_batch_mates_is_published_with_a_warning(
    store: ArtifactStore, tmp_path: Path
) -> None:
    manifest = put(store, onnx_models.minus_batch_mean(tmp_path / "m.onnx")).manifest
    assert manifest.batch_invariance.measured is not None
    assert manifest.batch_invariance.measured > 0.1
    assert "depends on its batch-mates" in manifest.warnings[0]


def test_a_sound_model_has_no_warning(store: ArtifactStore, tmp_path: Path) -> None:
    manifest = put(store, onnx_models.scale(tmp_path / "m.onnx")).manifest
    assert (manifest.warnings, manifest.batch_invariance.measured) == ((), 0.0)


@pytest.mark.parametrize("content", [b"", b"\x00junk", b"PK\x03\x04"])
def test_a_file_that_is_no_model_is_refused_by_name(
    store: ArtifactStore, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "junk.onnx").write_bytes(content)
    with pytest.raises(ArtifactError, match=r"junk\.onnx"):
        put(store, tmp_path / "junk.onnx")


def test_weights_beside_the_model_are_published_with_it(
    store: ArtifactStore, tmp_path: Path
) -> None:
    file = onnx_models.with_weights_at(tmp_path / "m.onnx", "weights/w.bin")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "w.bin").write_bytes(np.full(2, 5, np.float32).tobytes())
    put(store, file, alias=STABLE)
    model = load(store, "m", tmp_path / "cache")
    assert model.run({"input": np.ones((1, 2), np.float32)})["output"].tolist() == [[5, 5]]


@pytest.mark.field_fault("P-33")
@pytest.mark.parametrize(
    "location",
    ["../secret.bin", "a/../../secret.bin", "/etc/hostname", "link.bin", "absent.bin", "a\\b", ""],
)
def test_weights_that_lie_elsewhere_are_refused(
    store: ArtifactStore, tmp_path: Path, location: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(np.ones(2, np.float32).tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    with pytest.raises(ArtifactError):
        put(store, onnx_models.with_weights_at(folder / "m.onnx", location))
    assert list(store.objects.keys("")) == []


TRANSFORMS = {
    "[tabular]\ninput = 'input'\ncolumns = [{name = 'a', type = 'number'}]": "are 1, but 'input'",
    "[tabular]\ninput = 'x'\ncolumns = [{name = 'a', type = 'number'}]": "it has \\['input'\\]",
    "[labels]\noutput = 'output'\nnames = ['a', 'b', 'c']": "are 3, but 'output'",
    "[labels]\noutput = 'output'\nnames = ['a', 'a']": "each once",
    "[tabular]\ninput = 'input'\ncolumns = [{name = 'a', type = 'money'}]": "docs/transforms.md",
    "[tabular]\ninput = 'input'\ncolumns = [{name = 'a', type = 'category'}]": "categories",
    "[unknown]\nx = 1": "unknown",
    "this is not toml": "TOML",
}


@pytest.mark.parametrize("text", TRANSFORMS)
def test_a_transform_that_does_not_fit_the_model_is_refused(
    store: ArtifactStore, tmp_path: Path, text: str
) -> None:
    transform = tmp_path / "t.toml"
    transform.write_text(text)
    with pytest.raises(ArtifactError, match=TRANSFORMS[text]):
        put(store, onnx_models.echo(tmp_path / "m.onnx"), transform)
    assert list(store.objects.keys("")) == []


def test_a_changed_byte_is_refused_naming_file_and_both_digests(
    store: ArtifactStore, tmp_path: Path
) -> None:
    published = put(store, onnx_models.scale(tmp_path / "m.onnx"))
    file = tmp_path / "store" / version_prefix(NAME, 1) / "model.onnx"
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    with pytest.raises(DigestMismatchError) as caught:
        load(store, "m@1", tmp_path / "cache")
    expected = published.manifest.files["model.onnx"].sha256
    assert f"model.onnx is not the file that was published: expected {expected}, found " in str(
        caught.value
    )
    assert len(store.verify(NAME, Version(1))) == 1


def test_bytes_that_are_not_the_published_ones_never_reach_the_folder_they_are_pulled_to(
    store: ArtifactStore, tmp_path: Path
) -> None:
    put(store, onnx_models.scale(tmp_path / "m.onnx"))
    file = tmp_path / "store" / version_prefix(NAME, 1) / "model.onnx"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DigestMismatchError):
        store.export(NAME, Version(1), tmp_path / "pulled")
    assert list((tmp_path / "pulled").iterdir()) == []


def test_a_missing_file_is_refused_like_a_changed_one(store: ArtifactStore, tmp_path: Path) -> None:
    put(store, onnx_models.scale(tmp_path / "m.onnx"))
    (tmp_path / "store" / version_prefix(NAME, 1) / "model.onnx").unlink()
    with pytest.raises(DigestMismatchError, match="found no file"):
        load(store, "m@1", tmp_path / "cache")


def test_a_manifest_that_belongs_to_another_version_is_refused(
    store: ArtifactStore, tmp_path: Path
) -> None:
    put(store, onnx_models.scale(tmp_path / "m.onnx"))
    stored = store.objects.get(manifest_key(NAME, 1))
    assert stored is not None
    store.objects.put_if_absent(manifest_key(NAME, 2), stored.body)
    with pytest.raises(DigestMismatchError, match="m@2"):
        store.published(NAME, Version(2))


def test_a_model_with_another_signature_than_its_manifest_is_refused(
    store: ArtifactStore, tmp_path: Path
) -> None:
    put(store, onnx_models.echo(tmp_path / "m.onnx", width=2))
    version = store.pull(NAME, Version(1), cache=tmp_path)
    onnx_models.echo(version.file("model.onnx"), width=3)
    with pytest.raises(ArtifactError, match=r"expected input FP32 \[-1, 2\].* found .*\[-1, 3\]"):
        Model.load(version, threads=1)


@pytest.mark.parametrize(
    ("ref", "reason"),
    [("absent", "Models there: m"), ("m@9", r"the versions \[1\]"), ("m@candidate", "aliases")],
)
def test_a_reference_to_nothing_says_what_there_is(
    store: ArtifactStore, tmp_path: Path, ref: str, reason: str
) -> None:
    put(store, onnx_models.echo(tmp_path / "m.onnx"), alias=STABLE)
    with pytest.raises(ModelNotFoundError, match=reason):
        store.resolve(ModelRef.parse(ref))


def test_what_is_missing_decides_the_next_step(store: ArtifactStore, tmp_path: Path) -> None:
    put(store, onnx_models.echo(tmp_path / "m.onnx"), alias=STABLE)
    with pytest.raises(ModelNotFoundError) as version:
        store.resolve(ModelRef.parse("m@9"))
    with pytest.raises(ModelNotFoundError) as alias:
        store.resolve(ModelRef.parse("m@candidate"))
    assert "'tidegate model publish m FILE.onnx'" in str(version.value)
    assert "alias" not in str(version.value)
    assert "'tidegate model alias m candidate VERSION'" in str(alias.value)


def test_an_alias_moves_only_from_where_it_is_expected(
    store: ArtifactStore, tmp_path: Path
) -> None:
    for _ in range(2):
        put(store, onnx_models.echo(tmp_path / "m.onnx"))
    store.move_alias(NAME, STABLE, Version(1), expected=0)
    with pytest.raises(AliasMovedError, match="is at 1, not at 2"):
        store.move_alias(NAME, STABLE, Version(1), expected=2)
    assert store.move_alias(NAME, STABLE, Version(2), expected=1).aliases == {"stable": 2}


def test_an_alias_never_points_at_what_does_not_exist(store: ArtifactStore, tmp_path: Path) -> None:
    put(store, onnx_models.echo(tmp_path / "m.onnx"))
    with pytest.raises(ModelNotFoundError):
        store.move_alias(NAME, STABLE, Version(2))


def cli(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidegate", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_eight_publishers_at_once_get_eight_versions_each_with_its_own_bytes(
    store: ArtifactStore, tmp_path: Path
) -> None:
    files = [onnx_models.scale(tmp_path / f"{by}.onnx", by=by) for by in range(8)]
    running = [
        cli("model", "publish", NAME, file, "--store", tmp_path / "store", "--alias", f"a{place}")
        for place, file in enumerate(files)
    ]
    for process in running:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert store.versions(NAME) == list(range(1, 9))
    assert all(store.verify(NAME, version) == [] for version in store.versions(NAME))
    aliases = store.aliases(NAME).aliases
    for place, file in enumerate(files):
        version = Version(aliases[f"a{place}"])
        folder = store.pull(NAME, version, cache=tmp_path).folder
        assert (folder / "model.onnx").read_bytes() == file.read_bytes()


def test_a_full_disk_is_told_in_one_line_and_leaves_no_version(
    store: ArtifactStore, tmp_path: Path
) -> None:
    model = onnx_models.scale(tmp_path / "m.onnx", width=50_000)
    loaded = onnx.load(model)
    assert loaded.ByteSize() > 100_000
    script = "import sys; from tidegate.cli import run; sys.exit(run(sys.argv[1:]))"
    arguments = ["model", "publish", NAME, model, "--store", tmp_path / "store"]
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000)),
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    assert store.versions(NAME) == []


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow, as on a disk without room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_told_with_the_file_that_found_no_room(
    store: ArtifactStore, tmp_path: Path
) -> None:
    published = put(store, onnx_models.scale(tmp_path / "m.onnx", by=3))
    folder = tmp_path / "full"
    with full_disk(), pytest.raises(PartUnavailableError) as refused:
        copy_files(store.objects, published, folder=folder)
    assert f"cannot be brought to {folder}/" in str(refused.value)
    assert "File too large" in str(refused.value)
    assert "Make room" in str(refused.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["m.json", "m.txt", "m.onnxtxt", "m.textproto"])
def test_a_file_is_a_model_by_its_bytes_whatever_its_name_ends_in(
    store: ArtifactStore, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    file.write_text("no model { at all")
    with pytest.raises(ArtifactError, match=f"{name} cannot be read as an ONNX model"):
        put(store, file)
    onnx_models.scale(tmp_path / "m.onnx", by=3).replace(file)
    assert put(store, file).tag.version == 1
