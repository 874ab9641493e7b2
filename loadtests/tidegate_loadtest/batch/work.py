"""The models and the rows that every contender gets."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import onnx

from tidegate.objects.opening import open_store
from tidegate_loadtest.peers.work import SMALL, WIDE, Work, model_file, perceptron

if TYPE_CHECKING:
    import pyarrow as pa

WORKS: Final = {work.name: work for work in (WIDE, SMALL)}
FILE_ROWS: Final = 100_000
GROUP_ROWS: Final = 20_000
"""Of one row group: what Tidegate takes as one chunk, and the bare processes at a time."""
_SEED: Final = 1


def write_model(folder: Path, work: Work) -> Path:
    """Write a model, and beside it the transform by which Tidegate reads its rows, if it needs one.

    The features of the small model are a column each, as tables have them; those of the wide one
    are a list in one column named like the model's input.
    """
    file = model_file(folder, work)
    onnx.save(perceptron(work), file)
    if work == SMALL:
        columns = ", ".join(f'{{ name = "{name}", type = "number" }}' for name in _names(work))
        transform_file(file).write_text(f'[tabular]\ninput = "input"\ncolumns = [{columns}]\n')
    return file


def transform_file(model: Path) -> Path:
    """Return where a model's transform lies; without one there is nothing."""
    return model.with_suffix(".toml")


def write_rows(folder: Path, work: Work, rows: int) -> None:
    """Write parquet files of random numbers, the same each time, with the key ``id``."""
    from pyarrow import parquet  # noqa: PLC0415 - of an extra that other load tests do without

    folder.mkdir(parents=True)
    random = np.random.default_rng(_SEED)
    for first in range(0, rows, FILE_ROWS):
        count = min(FILE_ROWS, rows - first)
        file = folder / f"{first:09d}.parquet"
        parquet.write_table(_table(work, random, first, count), file, row_group_size=GROUP_ROWS)


def keys_at(output: str) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the keys of each published file of answers, ``(rows,)``."""
    from pyarrow import parquet  # noqa: PLC0415 - of an extra that other load tests do without

    store = open_store(output)
    for key in store.keys(""):
        head = store.head(key) if key.endswith(".parquet") else None
        if head is not None:
            with store.open(key, etag=head.etag) as file:
                yield parquet.read_table(file, columns=["id"])["id"].to_numpy()


def is_each_once(keys: Iterable[npt.NDArray[np.int64]], rows: int) -> bool:
    """Say whether the keys are those of the rows that were written, each of them once."""
    found = [*keys]
    if sum(map(len, found)) != rows:
        return False
    return bool(np.array_equal(np.sort(np.concatenate(found)), np.arange(rows)))


def _table(work: Work, random: np.random.Generator, first: int, count: int) -> "pa.Table":
    import pyarrow as pa  # noqa: PLC0415 - of an extra that other load tests do without

    columns: dict[str, Any] = {"id": np.arange(first, first + count)}
    width = work.widths[0]
    if work == SMALL:
        for name in _names(work):
            columns[name] = random.standard_normal(count, np.float32)
    else:
        values = pa.array(random.standard_normal(count * width, np.float32))
        columns["input"] = pa.FixedSizeListArray.from_arrays(values, width)
    return pa.table(columns)


def _names(work: Work) -> list[str]:
    return [f"f{place}" for place in range(work.widths[0])]
