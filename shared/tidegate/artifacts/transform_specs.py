"""What the transforms ``text``, ``image`` and ``pooling`` are told, in transform.toml and manifest.

One struct serves both. A field that may be left out in the file and depends on the model, such as
``TextSpec.buckets``, is filled in when publishing; in a manifest it is always there.
"""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Final, Literal

import msgspec

SHORTEST_BUCKET: Final = 16
"""Tokens; below, a call takes about as long, and each bucket is one more shape to warm."""
MOST_TOKENS: Final = 131_072
MOST_SIDE: Final = 4_096
"""Pixels of one side of what a model reads; 4096 x 4096 RGB in FP32 is 192 MiB a row."""
MOST_PIXELS: Final = 33_554_432
"""Of an image that is sent: 32 Mi, some 100 MB once decoded; phones make 12 to 24 Mi."""
PILLOW_PIXELS: Final = 89_478_485
"""Where Pillow's own limit against decompression bombs stands; it is never lifted."""
ImageFormat = Literal["png", "jpeg", "webp"]


class TextSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A column of text becomes token ids ``(rows, bucket)``, a mask and segment numbers."""

    tokenizer: str
    """In transform.toml a file beside it; in a manifest its path in the version's folder."""
    max_tokens: int
    """The most tokens that a row may have, special ones included."""
    column: str = "text"
    too_long: Literal["refuse", "truncate"] = "refuse"
    """What becomes of a longer text: refused by row, or only its beginning is read."""
    buckets: tuple[int, ...] | None = None
    """Lengths that texts are padded to, increasing, the last one ``max_tokens``."""
    special_tokens: bool = True
    """Whether those that the tokenizer adds, such as [CLS] and [SEP], are added."""
    pad_id: int | None = None
    """The token that fills up; by default the tokenizer's own."""
    ids: str | None = None
    """The input of token ids; by default ``input_ids``, or the only one."""
    mask: str | None = None
    """The input that is 1 at real tokens; by default ``attention_mask``, if the model has it."""
    types: str | None = None
    """The input of segment numbers; by default ``token_type_ids``, if the model has it."""

    def __post_init__(self) -> None:
        """Refuse lengths that mean nothing."""
        if not 1 <= self.max_tokens <= MOST_TOKENS:
            raise ValueError(f"[text] max_tokens={self.max_tokens} must be 1 to {MOST_TOKENS}")
        if not self.column:
            raise ValueError("[text] column must have a name")
        if (buckets := self.buckets) is not None:
            rising = buckets and buckets[0] >= 1 and all(a < b for a, b in pairwise(buckets))
            if not rising or buckets[-1] != self.max_tokens:
                raise ValueError(
                    f"[text] buckets={list(buckets)} must increase from 1 or more, and end with "
                    f"max_tokens={self.max_tokens}"
                )


def default_buckets(max_tokens: int) -> tuple[int, ...]:
    """Return powers of two from 16, up to and with ``max_tokens``.

    A text that is longer than the first bucket then has less padding than tokens.
    """
    lengths = []
    length = SHORTEST_BUCKET
    while length < max_tokens:
        lengths.append(length)
        length *= 2
    return (*lengths, max_tokens)


def worst_waste(buckets: Sequence[int]) -> float:
    """Return the largest share of a row that is padding, of texts longer than the first bucket."""
    return max((1 - (shorter + 1) / longer for shorter, longer in pairwise(buckets)), default=0.0)


class ImageSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A column of encoded images becomes pixels, ``(rows, channels, height, width)`` or so."""

    size: tuple[int, int]
    """Height and width that the model reads, in pixels."""
    column: str = "image"
    input: str | None = None
    """The model's input; by default its only one."""
    fit: Literal["stretch", "crop", "pad"] = "stretch"
    """How another shape becomes ``size``: both sides scaled; the shorter side scaled and the middle
    cut out; the longer side scaled and ``background`` put around it."""
    short_side: int | None = None
    """For ``crop``: what the shorter side is scaled to before, at least both of ``size``."""
    resample: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    channels: Literal["rgb", "bgr", "gray"] = "rgb"
    layout: Literal["nchw", "nhwc"] = "nchw"
    scale: float = 1 / 255
    """A channel becomes ``(value * scale - mean) / std``; values are 0 to 255. For a model of
    floating-point numbers; one of UINT8 gets the values as they are."""
    mean: tuple[float, ...] | None = None
    """One for each channel, in the order of ``channels``; by default 0."""
    std: tuple[float, ...] | None = None
    """Likewise; by default 1."""
    background: tuple[int, int, int] = (255, 255, 255)
    """RGB; what is seen through transparent pixels, and around an image that is padded."""
    formats: tuple[ImageFormat, ...] = ("png", "jpeg", "webp")
    """What is decoded; every other format is refused, and so are animations."""
    max_pixels: int = MOST_PIXELS
    """Of an image as it is sent, told by its header before anything is decoded."""

    def __post_init__(self) -> None:
        """Refuse sizes and numbers that mean nothing."""
        if not all(1 <= side <= MOST_SIDE for side in self.size):
            raise ValueError(f"[image] size={list(self.size)}: each side must be 1 to {MOST_SIDE}")
        if not self.column or not self.formats:
            raise ValueError("[image] column and formats must not be empty")
        if not 1 <= self.max_pixels <= PILLOW_PIXELS:
            raise ValueError(f"[image] max_pixels={self.max_pixels} must be 1 to {PILLOW_PIXELS}")
        if not all(0 <= value <= 255 for value in self.background):  # noqa: PLR2004 - a byte
            raise ValueError(f"[image] background={list(self.background)} must be 0 to 255 each")
        self._check_crop()
        self._check_numbers()

    @property
    def depth(self) -> int:
        """The number of channels."""
        return 1 if self.channels == "gray" else 3

    def _check_crop(self) -> None:
        if self.short_side is None:
            return
        if self.fit != "crop" or not max(self.size) <= self.short_side <= MOST_SIDE:
            raise ValueError(
                f'[image] short_side={self.short_side} goes with fit = "crop", and is at least '
                f"{max(self.size)} (the longer side of size), at most {MOST_SIDE}"
            )

    def _check_numbers(self) -> None:
        for name, values in (("mean", self.mean), ("std", self.std)):
            if values is not None and len(values) != self.depth:
                raise ValueError(f"[image] {name}={list(values)} must have {self.depth} number(s)")
        numbers = (self.scale, *(self.mean or ()), *(self.std or ()))
        if not all(map(isfinite, numbers)) or 0 in (self.std or ()) or not self.scale:
            raise ValueError("[image] scale, mean and std must be finite, scale and std not 0")


class PoolingSpec(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One vector for each token becomes one for the text: padding does not count."""

    output: str
    """The model's output ``(rows, tokens, width)``."""
    kind: Literal["mean", "first"] = "mean"
    """The mean over the real tokens, or the vector of the first one, such as [CLS]."""
    normalize: bool = False
    """Whether the result is scaled to length 1, so that a dot product is the cosine."""
