"""Made-up rows that a transform can read, for a model that nobody has asked anything yet."""

from bisect import bisect_right
from collections.abc import Sequence
from io import BytesIO
from typing import Final

import numpy as np
from PIL import Image

from tidegate.inference.transforms.image import ImageReader
from tidegate.inference.transforms.port import RowReader
from tidegate.inference.transforms.text import TextReader

_WORDS: Final = ("the", "tide", "comes", "in", "at", "noon;", "12", "boats", "leave,", "why?")
_NOISE_SHAPE: Final = (48, 64, 3)
_SEED: Final = 20261201


def sample_rows(reader: RowReader, rows: int) -> list[object] | None:
    """Make rows that differ, of one padded shape; ``None`` where random tensors do."""
    if isinstance(reader, TextReader):
        shortest = reader.buckets[0]
        return [sample_text(reader, 1 + row % shortest) for row in range(rows)]
    if isinstance(reader, ImageReader):
        random = np.random.default_rng(_SEED)
        noise = random.integers(0, 256, size=(rows, *_NOISE_SHAPE), dtype=np.uint8)
        return [_encoded(pixels, reader.formats) for pixels in noise]
    return None


def sample_text(reader: TextReader, tokens: int) -> str:
    """Make a text of ``tokens`` tokens, or a few less; empty if the special ones are more."""

    def text(words: int) -> str:
        return " ".join(_WORDS[place % len(_WORDS)] for place in range(words))

    def length(words: int) -> int:
        return reader.tokens_of([text(words)])[0]

    return text(max(0, bisect_right(range(tokens + 1), tokens, key=length) - 1))


def _encoded(pixels: np.ndarray, formats: Sequence[str]) -> bytes:
    file = BytesIO()
    Image.fromarray(pixels).save(file, formats[0])
    return file.getvalue()
