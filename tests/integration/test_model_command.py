"""``tidegate model`` where a model, its aliases or the end of a publication is not in order."""

import json
from pathlib import Path

import pytest

from tests.fakes.objects import Fails, FaultyObjectStore
from tests.fixtures import onnx_models
from tidegate.artifacts.layout import aliases_key, config_key
from tidegate.artifacts.store import ArtifactStore
from tidegate.cli import run
from tidegate.clock.system import SystemClock
from tidegate.errors import ArtifactError
from tidegate.ids import Alias, ModelName
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, PublishUnfinishedError, publish

Captured = pytest.CaptureFixture[str]

NAME = ModelName("m")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    """A store with ``m@1``, which the command finds too."""
    monkeypatch.setenv("TIDEGATE_STORE", str(tmp_path / "store"))
    store = ArtifactStore(LocalObjectStore(tmp_path / "store"))
    put(store, onnx_models.scale(tmp_path / "m.onnx"))
    return store


def put(store: ArtifactStore, file: Path) -> None:
    candidate = Candidate(name=NAME, file=file, alias=Alias("stable"))
    publish(store, candidate, clock=SystemClock())


def break_aliases(store: ArtifactStore) -> None:
    path = store.objects.local_path(aliases_key(NAME))
    assert path is not None
    path.write_text("{")


def told_when_failing(store: ArtifactStore, file: Path, key: str) -> str:
    """Publish ``m@2`` while one key takes no write, and return what was said."""
    counted = FaultyObjectStore(store.objects)
    put(ArtifactStore(counted), file)
    call = counted.calls.index(f"replace {key}")
    with pytest.raises(PublishUnfinishedError) as caught:
        put(ArtifactStore(FaultyObjectStore(store.objects, {call: Fails()})), file)
    return str(caught.value)


def test_an_alias_that_was_not_moved_does_not_hide_that_the_version_exists(
    store: ArtifactStore, tmp_path: Path
) -> None:
    told = told_when_failing(store, tmp_path / "m.onnx", aliases_key(NAME))
    published = store.published(NAME, store.versions(NAME)[-1]).tag
    assert told == (
        f"m@3 is published ({published.digest}); do not publish it again. Moving its alias failed: "
        "failed on purpose Run 'tidegate model alias m stable 3'."
    )


def test_a_configuration_that_was_not_written_does_not_keep_the_alias_from_moving(
    store: ArtifactStore, tmp_path: Path
) -> None:
    told = told_when_failing(store, tmp_path / "m.onnx", config_key(NAME))
    assert told.startswith("m@3 is published (sha256:")
    assert "config.pbtxt, which only Triton reads, failed: failed on purpose" in told
    assert store.aliases(NAME).aliases == {"stable": 3}


def test_aliases_that_cannot_be_read_are_told_before_anything_is_published(
    store: ArtifactStore, tmp_path: Path
) -> None:
    break_aliases(store)
    for _ in range(2):
        with pytest.raises(ArtifactError, match=r"aliases\.json of m cannot be read"):
            put(store, tmp_path / "m.onnx")
    assert list(store.objects.keys("models/m/2/")) == []


def test_aliases_that_cannot_be_read_are_told_in_their_models_row_alone(
    store: ArtifactStore, tmp_path: Path, capsys: Captured
) -> None:
    sound = Candidate(name=ModelName("sound"), file=tmp_path / "m.onnx", alias=Alias("stable"))
    publish(store, sound, clock=SystemClock())
    break_aliases(store)
    assert run(["model", "list", f"--json={tmp_path / 'list.json'}"]) == 0
    broken, good = capsys.readouterr().out.splitlines()[1:]
    assert broken.startswith("m      1         aliases.json of m cannot be read: ")
    assert good == "sound  1         stable -> 1"
    listed = json.loads((tmp_path / "list.json").read_text())["models"]
    assert listed[0]["problem"].startswith("aliases.json of m cannot be read: ")
    sound_row = {"name": "sound", "versions": [1], "aliases": {"stable": 1}, "problem": None}
    assert listed[1] == sound_row


@pytest.mark.parametrize("tolerance", ["nan", "inf"])
def test_a_tolerance_that_no_manifest_can_say_is_refused(
    store: ArtifactStore, tmp_path: Path, capsys: Captured, tolerance: str
) -> None:
    arguments = ["model", "publish", NAME, str(tmp_path / "m.onnx"), "--tolerance", tolerance]
    assert run(arguments) == 2
    assert f"a tolerance of {tolerance} cannot be meant" in capsys.readouterr().err
    assert store.versions(NAME) == [1]


def test_what_batch_mates_change_is_said_in_words(
    store: ArtifactStore, tmp_path: Path, capsys: Captured
) -> None:
    put(store, onnx_models.above_batch_mean(tmp_path / "2.onnx"))
    put(store, onnx_models.echo_fixed_rows(tmp_path / "3.onnx", rows=1))
    said = {
        1: "change an answer by 0; 1e-05 is allowed",
        2: "change an answer beyond any tolerance: another label, integer or NaN",
        3: "none: the model takes one row at a time",
    }
    for version, words in said.items():
        assert run(["model", "show", f"m@{version}"]) == 0
        assert f"  batch-mates {words}\n" in capsys.readouterr().out


def test_a_list_of_nothing_says_where_nothing_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["model", "list", "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"no model is published in {tmp_path} yet\n"


@pytest.mark.parametrize(
    "command",
    [
        ["model", "list"],
        ["model", "show", "m"],
        ["model", "verify", "m@1"],
        ["model", "pull", "m"],
        ["model", "alias", "m", "stable", "1"],
        ["serve"],
        ["profile", "m"],
    ],
)
def test_a_store_that_was_never_there_is_not_an_empty_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    mistyped = tmp_path / "mistyped"
    assert run([*command, "--store", str(mistyped)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: there is no store at {mistyped}: no such folder. ")
    assert told.endswith("'tidegate model publish' makes a new one (code: setting_invalid)\n")
    assert not mistyped.exists()
