"""The same text or image, the same artifact: both paths give it the same answer."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import helper
from PIL import Image

from tests.fixtures import text_models
from tests.fixtures.batch_jobs import Place, publish_as, published_rows, run_job
from tests.fixtures.images import encoded, turned_by_exif
from tests.fixtures.onnx_models import floats, save
from tests.fixtures.parity import answers_of_the_gateway, sizes_of
from tidegate.artifacts.store import ArtifactStore
from tidegate.ids import ModelRef
from tidegate.inference.model import Model
from tidegate.inference.opening import open_model
from tidegate.objects.opening import open_store

POOLED = (
    '[text]\ntokenizer = "words.json"\nmax_tokens = 64\ntoo_long = "truncate"\n'
    '[pooling]\noutput = "hidden"\nnormalize = true\n'
)
LABELLED = (
    '[text]\ntokenizer = "words.json"\nmax_tokens = 64\ntoo_long = "truncate"\n'
    '[labels]\noutput = "probabilities"\nnames = ["good", "bad"]\n'
)
IMAGE = (
    '[image]\nsize = [6, 9]\nfit = "crop"\nmean = [0.5, 0.4, 0.3]\nstd = [0.2, 0.3, 0.4]\n'
    '[labels]\noutput = "scores"\nnames = ["red", "green", "blue"]\n'
)
TEXTS = 400


def texts() -> list[str]:
    """Texts of all lengths from nothing to more than the model reads."""
    chance = Random(5)
    words = [*text_models.GOOD, *text_models.BAD, "tide", "😀", "שלום", "\0"]
    return [
        " ".join(chance.choices(words, k=chance.choice([0, 1, 9, 20, 70]))) for _ in range(TEXTS)
    ]


def images() -> list[bytes]:
    """Images of several sizes, kinds and orientations."""
    chance = np.random.default_rng(5)
    found = []
    for place in range(60):
        shape = (*chance.integers(1, 40, size=2), 3)
        image = Image.fromarray(chance.integers(0, 256, size=shape, dtype=np.uint8))
        kind = ("PNG", "WEBP", "JPEG")[place % 3]
        found.append(
            turned_by_exif(image, place % 8 + 1) if kind == "JPEG" else encoded(image, kind)
        )
    return found


def mean_of_channels(file: Path) -> Path:
    return save(
        file,
        [helper.make_node("ReduceMean", ["input"], ["scores"], axes=[2, 3], keepdims=0)],
        [floats("input", "rows", 3, 6, 9)],
        [floats("scores", "rows", 3)],
    )


def place_with(folder: Path, model: Path, toml: str, rows: pa.Table) -> Place:
    text_models.tokenizer().save(str(folder / "words.json"))
    transform = folder / "transform.toml"
    transform.write_text(toml)
    publish_as("m", str(folder / "store"), model, transform=transform)
    (folder / "in").mkdir()
    numbered = rows.add_column(0, "row", pa.array(range(len(rows))))
    pq.write_table(numbered, folder / "in/rows.parquet")
    return Place(store=str(folder / "store"), input=str(folder / "in"), output=str(folder / "out"))


def loaded(place: Place) -> Model:
    store = ArtifactStore(open_store(place.store))
    return open_model(store, ModelRef.parse("m@stable"), cache=Path(place.store), threads=1)


def offline(place: Place) -> pa.Table:
    ref = ModelRef.parse("m@stable")
    run_job(place, Path(place.store) / "cache", model=ref, key=["row"], chunk_rows=150)
    return published_rows(place.output).sort_by("row")


@pytest.mark.parametrize(
    ("build", "toml"),
    [(text_models.encoder, POOLED), (text_models.classifier, LABELLED)],
    ids=["pooled", "labelled"],
)
def test_a_text_gets_one_answer_on_both_paths_whatever_company_and_padding_it_has(
    build: Callable[[Path], Path], toml: str, tmp_path: Path
) -> None:
    rows = texts()
    place = place_with(tmp_path, build(tmp_path / "m.onnx"), toml, pa.table({"text": rows}))
    found, model = offline(place), loaded(place)
    answers = asyncio.run(
        answers_of_the_gateway(model, [{"text": text} for text in rows], sizes_of(1))
    )
    assert "text" not in found.column_names
    expected = np.array(found["prediction"].to_pylist(), dtype=np.float32)
    assert np.abs(answers["prediction"] - expected).max() <= 1e-5
    if "label" in answers:
        assert answers["label"].tolist() == found["label"].to_pylist()
        assert len(set(found["label"].to_pylist())) > 1
    assert 0 < model.padding.waste < 1


def test_an_image_gets_one_answer_on_both_paths(tmp_path: Path) -> None:
    rows = images()
    table = pa.table({"image": pa.array(rows, type=pa.binary())})
    place = place_with(tmp_path, mean_of_channels(tmp_path / "m.onnx"), IMAGE, table)
    found, model = offline(place), loaded(place)
    answers = asyncio.run(
        answers_of_the_gateway(model, [{"image": content} for content in rows], sizes_of(2))
    )
    expected = np.array(found["prediction"].to_pylist(), dtype=np.float32)
    assert np.abs(answers["prediction"] - expected).max() <= 1e-6
    assert answers["label"].tolist() == found["label"].to_pylist()
    assert len(set(found["label"].to_pylist())) > 1
