"""Publishing, killed before and after each call to the store, and with each reply lost."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes.objects import DiesAfter, Fault, FaultyObjectStore, Killed, LosesReply, every_crash
from tests.fixtures import onnx_models
from tidegate.artifacts.layout import manifest_key
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.errors import PartUnavailableError
from tidegate.ids import Alias, ModelName
from tidegate.objects.local import LocalObjectStore
from tidegate.objects.opening import open_store
from tidegate.objects.port import ObjectStore
from tidegate.publishing.publish import Candidate, PublishUnfinishedError, publish

NAME = ModelName("m")
STABLE = Alias("stable")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_models.scale(tmp_path_factory.mktemp("model") / "m.onnx")


def run(objects: ObjectStore, model: Path) -> None:
    candidate = Candidate(name=NAME, file=model, alias=STABLE)
    publish(ArtifactStore(objects), candidate, clock=SystemClock())


def calls_of(folder: Path, model: Path) -> list[str]:
    """Publish once, undisturbed, beside a version that is there already; return the calls."""
    inner = LocalObjectStore(folder)
    run(inner, model)
    steps = FaultyObjectStore(inner)
    run(steps, model)
    return steps.calls


def test_a_publish_killed_at_any_step_leaves_the_old_state_or_a_whole_version(
    tmp_path: Path, model: Path
) -> None:
    calls = calls_of(tmp_path / "undisturbed", model)
    manifest_written = calls.index(f"put_if_absent {manifest_key(NAME, 2)}")
    for number, faults in enumerate(every_crash(len(calls))):
        inner = LocalObjectStore(tmp_path / str(number))
        run(inner, model)
        with pytest.raises(Killed):
            run(FaultyObjectStore(inner, faults), model)
        store = ArtifactStore(inner)
        when, fault = next(iter(faults.items()))
        exists = when > manifest_written or (when == manifest_written and fault == DiesAfter())
        assert store.versions(NAME) == ([1, 2] if exists else [1]), calls[when]
        assert all(store.verify(NAME, version) == [] for version in store.versions(NAME))
        assert store.aliases(NAME).aliases["stable"] in store.versions(NAME)


def test_after_any_kill_the_next_publish_gets_a_number_that_nobody_ever_had(
    tmp_path: Path, model: Path
) -> None:
    calls = calls_of(tmp_path / "undisturbed", model)
    for number, faults in enumerate(every_crash(len(calls))):
        inner = LocalObjectStore(tmp_path / str(number))
        run(inner, model)
        with pytest.raises(Killed):
            run(FaultyObjectStore(inner, faults), model)
        claimed = {
            key.split("/")[2] for key in inner.keys("models/m/") if key.endswith("/claim.json")
        }
        run(inner, model)
        store = ArtifactStore(inner)
        newest = store.versions(NAME)[-1]
        assert str(newest) not in claimed
        assert store.aliases(NAME).aliases == {"stable": newest}
        config = inner.get("models/m/config.pbtxt")
        assert config is not None
        assert f"versions: {store.versions(NAME)} ".encode() in config.body


def test_a_lost_reply_is_an_error_and_never_a_second_version(tmp_path: Path, model: Path) -> None:
    calls = calls_of(tmp_path / "undisturbed", model)
    for number, call in enumerate(calls):
        if call.startswith(("get", "head", "keys")):
            continue
        inner = LocalObjectStore(tmp_path / str(number))
        run(inner, model)
        faults: Mapping[int, Fault] = {number: LosesReply()}
        with pytest.raises((PartUnavailableError, PublishUnfinishedError)) as caught:
            run(FaultyObjectStore(inner, faults), model)
        versions = ArtifactStore(inner).versions(NAME)
        assert versions in ([1], [1, 2])
        if isinstance(caught.value, PublishUnfinishedError):
            assert versions == [1, 2]


def test_publishing_and_aliases_work_alike_on_every_store(store_url: str, model: Path) -> None:
    objects = open_store(store_url)
    for _ in range(2):
        run(objects, model)
    store = ArtifactStore(objects)
    assert (store.names(), store.versions(NAME)) == ([NAME], [1, 2])
    assert store.aliases(NAME).aliases == {"stable": 2}
    assert all(store.verify(NAME, version) == [] for version in store.versions(NAME))


def test_a_pulled_version_is_fetched_once_and_verified_at_every_load(
    s3_url: str, model: Path, tmp_path: Path
) -> None:
    objects = open_store(s3_url)
    run(objects, model)
    counted = FaultyObjectStore(objects)
    store = ArtifactStore(counted)
    version = store.versions(NAME)[0]
    first = store.pull(NAME, version, cache=tmp_path)
    first.file("model.onnx").write_bytes(b"damaged")
    again = store.pull(NAME, version, cache=tmp_path)
    assert again.file("model.onnx").read_bytes() == model.read_bytes()
    store.pull(NAME, version, cache=tmp_path)
    opened = [call for call in counted.calls if call.startswith("open")]
    assert len(opened) == 2  # at first, and after the damage
