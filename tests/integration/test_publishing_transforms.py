"""Publishing models of text and images: what is filled in, what is tried, what is refused."""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.fixtures import onnx_models, text_models
from tests.fixtures.images import encoded, quarters
from tidegate.artifacts.layout import version_prefix
from tidegate.artifacts.manifest import PublishedVersion
from tidegate.artifacts.store import ArtifactStore
from tidegate.clock.system import SystemClock
from tidegate.errors import ArtifactError, DigestMismatchError
from tidegate.ids import ModelName, ModelRef, Version, digest_of
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate.objects.local import LocalObjectStore
from tidegate.publishing.publish import Candidate, publish

NAME = ModelName("m")
TEXT = '[text]\ntokenizer = "words.json"\nmax_tokens = 64\n'
POOLED = TEXT + '[pooling]\noutput = "hidden"\n'
LABELLED = TEXT + '[labels]\noutput = "probabilities"\nnames = ["good", "bad"]\n'
IMAGE = "[image]\nsize = [8, 8]\n"


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(LocalObjectStore(tmp_path / "store"))


def put(
    store: ArtifactStore, file: Path, toml: str, *, tolerance: float = 1e-5
) -> PublishedVersion:
    """Publish with a transform, beside which its tokenizer lies."""
    text_models.tokenizer().save(str(file.parent / "words.json"))
    transform = file.parent / "transform.toml"
    transform.write_text(toml)
    candidate = Candidate(name=NAME, file=file, transform=transform, tolerance=tolerance)
    return publish(store, candidate, clock=SystemClock())


def load(store: ArtifactStore, cache: Path) -> Model:
    return open_model(store, ModelRef(NAME, Version(1)), cache=cache, threads=1)


def answers(model: Model, rows: list[object]) -> dict[str, Any]:
    inputs = model.tensors_from_instances(rows)
    return {name: v.tolist() for name, v in model.present(model.run(inputs), inputs).items()}


def test_a_tokenizer_is_published_with_its_digest_and_all_is_filled_in(
    store: ArtifactStore, tmp_path: Path
) -> None:
    manifest = put(store, text_models.encoder(tmp_path / "m.onnx"), POOLED).manifest
    text = manifest.transforms.text
    assert text is not None
    assert msgspec.structs.asdict(text) == {
        "tokenizer": "assets/tokenizer.json",
        "max_tokens": 64,
        "column": "text",
        "too_long": "refuse",
        "buckets": (16, 32, 64),
        "special_tokens": True,
        "pad_id": 0,
        "ids": "input_ids",
        "mask": "attention_mask",
        "types": None,
    }
    stored = store.objects.get(version_prefix(NAME, 1) + text.tokenizer)
    assert stored is not None
    assert digest_of(stored.body) == f"sha256:{manifest.files[text.tokenizer].sha256}"
    assert manifest.warnings == ()
    assert manifest.batch_invariance.measured == 0


def test_a_tokenizer_that_was_changed_is_not_loaded(store: ArtifactStore, tmp_path: Path) -> None:
    put(store, text_models.encoder(tmp_path / "m.onnx"), POOLED)
    file = tmp_path / "store" / version_prefix(NAME, 1) / "assets/tokenizer.json"
    file.write_text(file.read_text().replace("good", "evil"))
    with pytest.raises(DigestMismatchError, match=r"assets/tokenizer\.json"):
        load(store, tmp_path / "cache")


def test_text_becomes_labels(store: ArtifactStore, tmp_path: Path) -> None:
    put(store, text_models.classifier(tmp_path / "m.onnx"), LABELLED)
    model = load(store, tmp_path / "cache")
    found = answers(model, [{"text": "good fine tide"}, "sad bad", ""])
    assert list(found) == ["prediction", "label", "probability"]
    assert found["label"] == ["good", "bad", "good"]
    assert model.lengths == (16, 32, 64)
    assert model.is_slow_to_read
    assert (model.padding.tokens, model.padding.padding) == (11, 37)


@pytest.mark.field_fault("S-12", "S-11")
def test_a_padded_text_gets_the_answer_of_an_unpadded_one(
    store: ArtifactStore, tmp_path: Path
) -> None:
    put(store, text_models.encoder(tmp_path / "m.onnx"), POOLED)
    model = load(store, tmp_path / "cache")
    short, long = "good tide", " ".join(["bad"] * 50)
    alone = answers(model, [short])["prediction"]
    assert answers(model, [short, long])["prediction"][0] == alone[0]
    assert alone == [[(3 * 1.25 + 3) / 4, (3 * 1.25 + 1) / 4]]  # [CLS] good tide [SEP]


def test_a_model_that_does_not_read_the_mask_is_published_with_a_warning(
    store: ArtifactStore, tmp_path: Path
) -> None:
    manifest = put(store, text_models.blind_to_the_mask(tmp_path / "m.onnx"), TEXT).manifest
    (warning,) = manifest.warnings
    assert warning.startswith("a row's answer depends on how far it is padded: it differed by ")
    assert "does the model read the attention mask?" in warning
    assert manifest.batch_invariance.measured is not None
    assert manifest.batch_invariance.measured > 0.01


def test_an_image_becomes_labels(store: ArtifactStore, tmp_path: Path) -> None:
    labels = '[labels]\noutput = "means"\nnames = ["red", "green", "blue"]\n'
    manifest = put(
        store, mean_of_channels(tmp_path / "m.onnx"), IMAGE + labels, tolerance=1e-3
    ).manifest
    assert manifest.transforms.image is not None
    assert manifest.transforms.image.input == "input"
    assert manifest.warnings == ()
    model = load(store, tmp_path / "cache")
    found = answers(model, [encoded(quarters().crop((0, 0, 32, 32))), encoded(quarters())])
    assert found["label"] == ["red", "red"]
    assert np.allclose(found["prediction"], np.array([[1, 0, 0], [0.5, 0.5, 0.5]]))
    assert model.lengths == (1,)
    assert model.padding.waste == 0


def mean_of_channels(file: Path) -> Path:
    return onnx_models.save(
        file,
        [helper.make_node("ReduceMean", ["input"], ["means"], axes=[2, 3], keepdims=0)],
        [onnx_models.floats("input", "rows", 3, 8, 8)],
        [onnx_models.floats("means", "rows", 3)],
    )


def short_of_positions(file: Path) -> Path:
    """An encoder with 32 positions: what makes longer texts fail."""
    model = onnx.load(text_models.encoder(file))
    graph = model.graph
    graph.initializer.append(numpy_helper.from_array(np.zeros((32, 2), np.float32), "positions"))
    added = [
        helper.make_node("Shape", ["input_ids"], ["shape"], start=1, end=2),
        helper.make_node("Squeeze", ["shape"], ["length"]),
        helper.make_node("Range", ["from", "length", "step"], ["places"]),
        helper.make_node("Gather", ["positions", "places"], ["placed"]),
        helper.make_node("Add", ["with_mask", "placed"], ["hidden"]),
    ]
    graph.initializer.append(numpy_helper.from_array(np.array(0), "from"))
    graph.initializer.append(numpy_helper.from_array(np.array(1), "step"))
    graph.node[-1].output[0] = "with_mask"
    graph.node.extend(added)
    onnx.save(model, file)
    return file


def test_a_length_that_the_model_cannot_read_is_found_when_publishing(
    store: ArtifactStore, tmp_path: Path
) -> None:
    with pytest.raises(ArtifactError, match=r"failed on made-up rows .*'input_ids': \[1, 64\]"):
        put(store, short_of_positions(tmp_path / "m.onnx"), POOLED)


def fixed_length(file: Path, tokens: int = 24) -> Path:
    model = onnx.load(text_models.classifier(file))
    for tensor in model.graph.input:
        tensor.type.tensor_type.shape.dim[1].Clear()
        tensor.type.tensor_type.shape.dim[1].dim_value = tokens
    onnx.save(model, file)
    return file


def test_a_model_of_one_length_has_one_bucket(store: ArtifactStore, tmp_path: Path) -> None:
    toml = TEXT.replace("64", "24")
    manifest = put(store, fixed_length(tmp_path / "m.onnx"), toml).manifest
    assert manifest.transforms.text is not None
    assert manifest.transforms.text.buckets == (24,)
    assert load(store, tmp_path / "cache").tensors_from_instances(["good"])["input_ids"].shape == (
        1,
        24,
    )


@pytest.mark.parametrize("changes", ["", "buckets = [16, 64]\n"])
def test_and_no_other_length(store: ArtifactStore, tmp_path: Path, changes: str) -> None:
    with pytest.raises(ArtifactError, match="max_tokens must be 24"):
        put(store, fixed_length(tmp_path / "m.onnx"), TEXT + changes)


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        (TEXT.replace("words", "nothing"), "nothing.json is no file"),
        (TEXT.replace("words.json", "transform.toml"), "is no tokenizer.json"),
        (TEXT.replace("64", "2"), "leaves no room for text: the tokenizer adds 2"),
        (TEXT + 'ids = "tokens"\n', "'tokens' is not in the model"),
        (TEXT + "buckets = [16, 32]\n", "end with max_tokens=64"),
        (TEXT + '[pooling]\noutput = "probabilities"\n', "of the shape \\[rows, tokens, width\\]"),
        (TEXT + IMAGE, "a row is read in one way"),
        ('[pooling]\noutput = "probabilities"\n', "needs \\[text\\]"),
        (IMAGE, "fills one input, but the model reads"),
        (TEXT + "unknown = 1\n", "unknown"),
    ],
)
def test_a_text_transform_that_does_not_fit_is_refused(
    store: ArtifactStore, tmp_path: Path, toml: str, problem: str
) -> None:
    file = text_models.classifier(tmp_path / "m.onnx")
    with pytest.raises(ArtifactError, match=problem):
        put(store, file, toml)
    assert store.versions(NAME) == []


def test_a_model_with_an_input_that_no_text_fills_is_refused(
    store: ArtifactStore, tmp_path: Path
) -> None:
    file = text_models.encoder(tmp_path / "m.onnx")
    model = onnx.load(file)
    model.graph.input.append(
        helper.make_tensor_value_info("position_ids", TensorProto.INT64, ("rows", "tokens"))
    )
    model.graph.node.append(helper.make_node("Identity", ["position_ids"], ["echo"]))
    onnx.save(model, file)
    with pytest.raises(ArtifactError, match=r"but the model reads .*'position_ids'"):
        put(store, file, TEXT)


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        ("[image]\nsize = [4, 8]\n", r"makes \[3, 4, 8\] of each row"),
        (IMAGE + 'layout = "nhwc"\n', r"makes \[8, 8, 3\]"),
        (IMAGE + 'channels = "gray"\n', r"makes \[1, 8, 8\]"),
        (IMAGE + 'input = "x"\n', "'x' is not in the model"),
        (IMAGE + "mean = [0.5]\n", "mean"),
        (IMAGE + 'formats = ["gif"]\n', "gif"),
        (IMAGE + TEXT, "one way"),
    ],
)
def test_an_image_transform_that_does_not_fit_is_refused(
    store: ArtifactStore, tmp_path: Path, toml: str, problem: str
) -> None:
    with pytest.raises(ArtifactError, match=problem):
        put(store, mean_of_channels(tmp_path / "m.onnx"), toml)
