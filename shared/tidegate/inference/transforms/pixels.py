"""From the bytes of an encoded image to pixels of one size: Pillow, inside of bounds.

Nothing is decoded before the header has said a size that is allowed, so that a few bytes cannot
become gigabytes (a "decompression bomb"). Everything that is wrong with an image is an
``UnusableImageError`` in words of our own: Pillow's name objects of this process.
"""

import warnings
from io import BytesIO
from typing import Final

import numpy as np
from PIL import Image, ImageOps

from tidegate.artifacts.transform_specs import ImageSpec
from tidegate.inference.arrays import Array

# Between its limit and twice that, Pillow only warns, on a stream that nobody reads.
warnings.simplefilter("error", Image.DecompressionBombWarning)
# Damaged metadata of a sound picture, in words of whoever sent it; nothing to fill a log with.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

_RESAMPLE: Final = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_NAMES: Final = {"png": "PNG", "jpeg": "JPEG", "webp": "WebP"}
_STILL: Final = frozenset({"MPO"})
"""What has several pictures and is no animation: a photo with its preview. The first is read."""

_SCAN: Final = b"\xff\xda"
_MOST_SCANS: Final = 100
"""Of a JPEG: each goes over all pixels again, and a few bytes make one; usual ones have ten."""


class UnusableImageError(Exception):
    """What is wrong with an image, in a few words that may be shown to whoever sent it."""


def decode(content: bytes, spec: ImageSpec) -> Array:
    """Decode an image, turn it upright, and bring it to the size that a model reads.

    Args:
        content: A file of one of ``spec.formats``.
        spec: Size, fit and limits.

    Returns:
        RGB, or gray for ``channels = "gray"``: ``(height, width, 3)`` or ``(height, width, 1)``,
        UINT8. Transparent pixels show ``spec.background``; colour profiles are ignored.

    Raises:
        UnusableImageError: Another format, too many pixels, an animation, or damaged.
    """
    image = open_image(content, spec)
    try:
        fitted = _fitted(_flat(ImageOps.exif_transpose(image), spec), spec)
    except Exception as error:  # Pillow raises nearly everything, from KeyError to SyntaxError
        raise UnusableImageError("a damaged or incomplete image") from error
    return np.asarray(fitted).reshape(*spec.size, spec.depth)


def open_image(content: bytes, spec: ImageSpec) -> Image.Image:
    """Read an image's header alone.

    Raises:
        UnusableImageError: Another format, too many pixels or scans, or an animation.
    """
    formats = [_NAMES[name] for name in spec.formats]
    too_large = f"an image of more than {spec.max_pixels} pixels"
    try:
        image = Image.open(BytesIO(content), formats=[name.upper() for name in formats])
        frames = getattr(image, "n_frames", 1)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise UnusableImageError(too_large) from error
    except Exception as error:  # as above
        raise UnusableImageError(
            f"{len(content)} bytes that are no image of the kind {', '.join(formats)}"
        ) from error
    if image.width * image.height > spec.max_pixels:
        raise UnusableImageError(f"{too_large}: {image.width} x {image.height}")
    if content.count(_SCAN) > _MOST_SCANS and image.format in {"JPEG", *_STILL}:
        raise UnusableImageError(f"a JPEG of more than {_MOST_SCANS} scans")
    if frames > 1 and image.format not in _STILL:
        raise UnusableImageError("an animation; send one picture")
    return image


def _flat(image: Image.Image, spec: ImageSpec) -> Image.Image:
    """Bring any mode to RGB or gray of 8 bits, without transparency."""
    if image.mode.startswith("I"):  # 16 bits of gray, which Pillow would cut off at 255
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        behind = Image.new("RGBA", image.size, (*spec.background, 255))
        image = Image.alpha_composite(behind, image)
    return image.convert("L" if spec.channels == "gray" else "RGB")


def _fitted(image: Image.Image, spec: ImageSpec) -> Image.Image:
    height, width = spec.size
    resample = _RESAMPLE[spec.resample]
    if spec.fit == "stretch":
        return image.resize((width, height), resample)
    if spec.fit == "pad":
        return _padded(image, spec, resample)
    return _cropped(image, spec, resample)


def _padded(image: Image.Image, spec: ImageSpec, resample: Image.Resampling) -> Image.Image:
    height, width = spec.size
    inside = ImageOps.contain(image, (width, height), resample)
    padded = Image.new("RGB", (width, height), spec.background).convert(image.mode)
    padded.paste(inside, ((width - inside.width) // 2, (height - inside.height) // 2))
    return padded


def _cropped(image: Image.Image, spec: ImageSpec, resample: Image.Resampling) -> Image.Image:
    """Scale the shorter side, and cut out the middle; only what is kept is ever scaled."""
    height, width = spec.size
    if spec.short_side is None:
        scale = min(image.width / width, image.height / height)
    else:
        scale = min(image.width, image.height) / spec.short_side
    kept_width, kept_height = width * scale, height * scale
    left, top = (image.width - kept_width) / 2, (image.height - kept_height) / 2
    box = (left, top, left + kept_width, top + kept_height)
    return image.resize((width, height), resample, box=box)
