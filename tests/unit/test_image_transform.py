"""``image``: what becomes of people's images, however hostile they are."""

import tracemalloc
from random import Random

import numpy as np
import pytest
from PIL import Image

from tests.fixtures.images import (
    animation,
    encoded,
    many_scans,
    png_header,
    quarters,
    turned_by_exif,
)
from tidegate.artifacts.transform_specs import ImageSpec
from tidegate.inference.arrays import Array
from tidegate.inference.transforms.column import MOST_ELEMENTS
from tidegate.inference.transforms.image import ImageReader
from tidegate.tensors import Signature, SignatureMismatchError, TensorSpec

RED, LIME, BLUE, WHITE = [255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]


def reader(datatype: str = "UINT8", **fields: object) -> ImageReader:
    """Return one that gives the pixels as they are, unless something else is asked for."""
    known: dict[str, object] = {
        "size": (2, 2),
        "input": "x",
        "layout": "nhwc",
        "resample": "nearest",
    }
    spec = ImageSpec(**{**known, **fields})  # type: ignore[arg-type] # any of its fields
    tensor = TensorSpec(name="x", datatype=datatype, shape=(-1, -1, -1, -1))
    return ImageReader(spec, Signature(inputs=(tensor,), outputs=()))


def pixels(content: object, **fields: object) -> Array:
    found: Array = reader(**fields).from_instances([{"image": content}])["x"][0]  # type: ignore[arg-type] # as above
    return found


def said_of(content: object, **fields: object) -> str:
    with pytest.raises(SignatureMismatchError) as caught:
        reader(**fields).from_instances([encoded(quarters()), content])  # type: ignore[arg-type] # as above
    return str(caught.value).removeprefix("Input 'image': expected ")


@pytest.mark.parametrize(
    ("kind", "options"), [("PNG", {}), ("WEBP", {"lossless": True}), ("JPEG", {"quality": 100})]
)
def test_an_image_becomes_pixels_of_the_models_size(kind: str, options: dict[str, object]) -> None:
    found = pixels(encoded(quarters(), kind, **options)).astype(int)
    assert np.abs(found - np.array([[RED, LIME], [BLUE, WHITE]])).max() <= 2


def test_channels_are_laid_out_as_the_model_reads_them() -> None:
    content = encoded(quarters())
    as_rgb = pixels(content)
    assert np.array_equal(pixels(content, layout="nchw"), as_rgb.transpose(2, 0, 1))
    assert np.array_equal(pixels(content, channels="bgr"), as_rgb[:, :, ::-1])
    assert pixels(content, channels="gray").tolist() == [[[76], [150]], [[29], [255]]]


def test_numbers_are_scaled_and_normalised_in_the_order_of_the_channels() -> None:
    found = pixels(
        encoded(quarters()), datatype="FP32", channels="bgr", mean=(0.5, 0, 0), std=(0.25, 1, 2)
    )
    assert found.dtype == np.float32
    assert np.allclose(found[0, 0], [-2, 0, 0.5])
    assert np.allclose(found[1, 1], [2, 1, 0.5])
    assert pixels(encoded(quarters()), datatype="FP16").dtype == np.float16


@pytest.mark.parametrize(
    ("orientation", "corners"),
    [
        (1, [[RED, LIME], [BLUE, WHITE]]),
        (3, [[WHITE, BLUE], [LIME, RED]]),
        (6, [[BLUE, RED], [WHITE, LIME]]),
        (8, [[LIME, WHITE], [RED, BLUE]]),
        (2, [[LIME, RED], [WHITE, BLUE]]),
    ],
)
def test_a_photo_is_turned_as_its_camera_was_held(
    orientation: int, corners: list[list[list[int]]]
) -> None:
    found = pixels(turned_by_exif(quarters(), orientation)).astype(int)
    assert np.abs(found - np.array(corners)).max() <= 8


def test_another_shape_is_stretched_cropped_or_padded() -> None:
    wide = Image.new("RGB", (90, 30), "red")
    wide.paste("blue", (30, 0, 60, 30))
    content = encoded(wide)
    stretched = pixels(content, size=(3, 3))
    assert stretched[0].tolist() == [RED, BLUE, RED]
    assert (pixels(content, size=(3, 3), fit="crop") == BLUE).all()
    padded = pixels(content, size=(3, 3), fit="pad", background=(0, 255, 0))
    assert padded.tolist() == [[LIME] * 3, [RED, BLUE, RED], [LIME] * 3]
    gray = pixels(content, size=(3, 3), fit="pad", channels="gray", background=(9, 9, 9))
    assert gray[:, 1, 0].tolist() == [9, 29, 9]


def test_the_middle_is_cut_out_after_the_shorter_side_was_scaled() -> None:
    framed = Image.new("RGB", (80, 40), "red")
    framed.paste(
        "blue", (30, 10, 50, 30)
    )  # a quarter of the scaled image's height in from each side
    assert (pixels(encoded(framed), size=(2, 2), fit="crop", short_side=4) == BLUE).all()


def test_transparent_pixels_show_the_background() -> None:
    clear = Image.new("RGBA", (4, 4), (255, 0, 0, 0))
    half = Image.new("RGBA", (4, 4), (255, 0, 0, 128))
    assert (pixels(encoded(clear)) == 255).all()
    assert (pixels(encoded(clear), background=(0, 0, 255)) == BLUE).all()
    assert pixels(encoded(half))[0, 0].tolist() == [255, 127, 127]
    assert pixels(encoded(half, "WEBP", lossless=True))[0, 0].tolist() == [255, 127, 127]
    palette = Image.new("P", (4, 4))
    palette.putpalette([255, 0, 0, 0, 255, 0])
    palette.paste(1, (0, 0, 2, 2))
    found = pixels(encoded(palette, transparency=0))
    assert found.tolist() == [[LIME, WHITE], [WHITE, WHITE]]


def test_sixteen_bits_of_gray_are_scaled_and_not_cut_off() -> None:
    deep = np.array([[0, 0x1234], [0x8000, 0xFFFF]], dtype=np.uint16)
    assert pixels(encoded(Image.fromarray(deep)), channels="gray").tolist() == [
        [[0], [0x12]],
        [[0x80], [0xFF]],
    ]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK"])
def test_every_kind_of_pixel_is_read(mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    found = pixels(encoded(Image.new("RGB", (8, 8), "white").convert(mode), kind))
    assert found.shape == (2, 2, 3)
    assert found.min() >= 254


def test_the_smallest_image_is_one() -> None:
    assert (
        pixels(encoded(Image.new("RGB", (1, 1), "blue")), size=(5, 3), fit="crop") == BLUE
    ).all()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 bytes that are no image of the kind PNG, JPEG, WebP"),
        (b"\x89PNG\r\n\x1a\n", "no image of the kind"),
        (b"GIF89a" + b"\0" * 40, "46 bytes that are no image"),
        (encoded(quarters(), "GIF"), "no image of the kind PNG, JPEG, WebP"),
        (animation("GIF"), "no image of the kind"),
        (encoded(quarters(), "BMP"), "no image of the kind"),
        (encoded(quarters(), "TIFF"), "no image of the kind"),
        (animation("WEBP"), "an animation; send one picture"),
        (animation("PNG"), "an animation; send one picture"),
        (encoded(quarters(256), "JPEG")[:900], "a damaged or incomplete image"),
        (encoded(Image.effect_noise((64, 64), 99), "PNG")[:2_000], "a damaged or incomplete image"),
        (encoded(Image.effect_noise((64, 64), 99), "WEBP")[:900], "no image|a damaged"),
        (png_header(64, 64), "a damaged or incomplete image"),
    ],
)
def test_a_file_that_is_no_whole_image_is_refused_by_row(content: bytes, said: str) -> None:
    found = said_of(content)
    assert found.startswith("an image in row 1, found ")
    assert any(part in found for part in said.split("|"))
    assert "0x" not in found


@pytest.mark.parametrize(
    ("width", "height", "said"),
    [
        (30_000, 30_000, "more than 33554432 pixels"),  # beyond Pillow's own limit, twice
        (10_000, 10_000, "more than 33554432 pixels"),  # where Pillow would only warn
        (5_793, 5_793, "more than 33554432 pixels: 5793 x 5793"),
        (2**31 - 1, 1, "more than 33554432 pixels"),
    ],
)
def test_a_bomb_is_refused_before_anything_is_allocated(width: int, height: int, said: str) -> None:
    tracemalloc.start()
    try:
        assert said in said_of(png_header(width, height))
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 1 << 20


def test_a_jpeg_that_goes_over_its_pixels_again_and_again_is_refused() -> None:
    assert pixels(many_scans(1)).shape == (2, 2, 3)
    assert "a JPEG of more than 100 scans" in said_of(many_scans(10_000))


def test_of_a_photo_with_its_preview_the_photo_is_read() -> None:
    preview = Image.new("RGB", (8, 8), "blue")
    both = encoded(quarters(), "MPO", save_all=True, append_images=[preview], quality=100)
    found = pixels(both).astype(int)
    assert np.abs(found - np.array([[RED, LIME], [BLUE, WHITE]])).max() <= 2


def test_the_limit_of_pixels_and_the_formats_are_the_manifests() -> None:
    content = encoded(quarters(64))
    assert pixels(content, max_pixels=64 * 64).shape == (2, 2, 3)
    assert "more than 4095 pixels: 64 x 64" in said_of(content, max_pixels=64 * 64 - 1)
    jpeg = encoded(quarters(), "JPEG")
    assert "no image of the kind PNG" in said_of(jpeg, formats=("png",))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("iVBORw0KGgo=", 'found text of 12 characters (in JSON, bytes are {"b64": "…"})'),
        (None, "found no value"),
        ([1, 2], "found [1, 2]"),
        (7, "found 7"),
    ],
)
def test_what_are_no_bytes_is_refused_by_row_with_the_way_to_send_them(
    value: object, said: str
) -> None:
    assert said_of(value) == f"the bytes of an image in row 1, {said}."


def test_a_few_bytes_never_become_a_tensor_of_gigabytes() -> None:
    small = encoded(Image.new("RGB", (1, 1)))
    most = MOST_ELEMENTS // (3 * 2_048 * 2_048)
    with pytest.raises(SignatureMismatchError, match=f"at most {most} rows .* found {most + 1}"):
        reader(size=(2_048, 2_048)).from_instances([small] * (most + 1))


def test_a_request_of_many_large_images_is_refused_before_they_are_decoded() -> None:
    bombs = [png_header(5_000, 5_000)] * 11
    with pytest.raises(SignatureMismatchError, match=r"at most 268435456 pixels .* 275000000"):
        reader().from_instances(bombs)


def test_a_row_gives_the_same_bytes_as_json_and_as_a_table() -> None:
    contents = [encoded(quarters()), turned_by_exif(quarters(40), 6)]
    column = np.empty(2, dtype=object)
    column[:] = contents
    of = reader(datatype="FP32", size=(7, 5), resample="bilinear", layout="nchw")
    as_table = of.from_columns({"image": column})["x"]
    as_json = of.from_instances([{"image": content} for content in contents])["x"]
    bare = of.from_instances(contents)["x"]
    assert as_table.tobytes() == as_json.tobytes() == bare.tobytes()
    assert as_table.shape == (2, 3, 7, 5)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_bytes_that_were_tampered_with_are_an_image_or_a_refusal(kind: str) -> None:
    random = Random(kind)
    sound = encoded(Image.effect_noise((32, 32), 60).convert("RGB"), kind)
    exif = turned_by_exif(quarters(32), 6) if kind == "JPEG" else sound
    for turn in range(150):
        content = bytearray(exif if turn % 2 else sound)
        for _ in range(random.randint(1, 12)):
            content[random.randrange(len(content))] = random.randrange(256)
        try:
            assert pixels(bytes(content)).shape == (2, 2, 3)
        except SignatureMismatchError as error:
            assert "in row 0, found" in str(error)  # noqa: PT017 - both endings are right


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"size": (0, 2)}, "size"),
        ({"size": (2, 5_000)}, "size"),
        ({"short_side": 4}, "crop"),
        ({"fit": "crop", "short_side": 1}, "short_side=1"),
        ({"mean": (0.5,)}, "mean"),
        ({"std": (1.0, 0.0, 1.0)}, "not 0"),
        ({"scale": float("nan")}, "finite"),
        ({"background": (0, 0, 256)}, "background"),
        ({"max_pixels": 10**9}, "max_pixels"),
        ({"formats": ()}, "formats"),
    ],
)
def test_a_transform_that_means_nothing_is_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        reader(**fields)  # type: ignore[arg-type] # that is the point
