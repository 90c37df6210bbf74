from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest

from gmmatch.data import Unreadable
from gmmatch.data.images import as_pixels

Image = pytest.importorskip("PIL.Image", reason="needs pillow")


def saved(image, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, **options)
    return stream.getvalue()


def quarters(size: int = 64):
    """Red, green, blue and white quarters: no two ways to turn it look alike."""
    pixels = np.zeros((size, size, 3), np.uint8)
    half = size // 2
    pixels[:half, :half] = (255, 0, 0)
    pixels[:half, half:] = (0, 255, 0)
    pixels[half:, :half] = (0, 0, 255)
    pixels[half:, half:] = (255, 255, 255)
    return Image.fromarray(pixels)


def png_with_head(width: int, height: int, depth: int = 8, content: bytes = bytes(1000)) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)
    pixels = zlib.compress(content)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_comes_out_upright(orientation):
    undo = {
        1: lambda p: p,
        2: np.fliplr,
        3: lambda p: np.rot90(p, 2),
        4: np.flipud,
        5: lambda p: p.transpose(1, 0, 2),
        6: np.rot90,
        7: lambda p: np.rot90(p, 2).transpose(1, 0, 2),
        8: lambda p: np.rot90(p, 3),
    }[orientation]
    upright = np.asarray(quarters())
    stored = Image.fromarray(np.ascontiguousarray(undo(upright)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = saved(stored, format="PNG", exif=exif)
    np.testing.assert_array_equal(as_pixels(content, 64), upright)


def test_grey_becomes_three_equal_channels():
    ramp = np.tile(np.arange(64, dtype=np.uint8), (64, 1))
    pixels = as_pixels(saved(Image.fromarray(ramp), format="PNG"), 64)
    np.testing.assert_array_equal(pixels, np.repeat(ramp[..., None], 3, axis=2))


def test_sixteen_bit_grey_is_scaled_and_not_clipped():
    ramp = np.tile(np.linspace(0, 65535, 64).astype(np.uint16), (64, 1))
    pixels = as_pixels(saved(Image.fromarray(ramp), format="PNG"), 64)
    np.testing.assert_allclose(pixels[0, :, 0], ramp[0] / 257, atol=0.51)
    assert (np.diff(pixels[0, :, 0].astype(int)) > 0).all()


def test_sixteen_bit_big_endian_tiff_is_scaled_too():
    ramp = np.tile(np.linspace(0, 65535, 64).astype(">u2"), (64, 1))
    image = Image.frombytes("I;16B", (64, 64), ramp.tobytes())
    pixels = as_pixels(saved(image, format="TIFF"), 64)
    np.testing.assert_allclose(pixels[0, :, 0], ramp[0].astype(float) / 257, atol=0.51)


def test_sixteen_bit_colour_is_scaled():
    colour = np.tile(np.linspace(0, 65535, 16).astype(">u2")[:, None] // [1, 2, 4], (16, 1, 1)).astype(">u2")
    rows = b"".join(b"\0" + row.tobytes() for row in colour)
    pixels = as_pixels(png_with_head(16, 16, depth=16, content=rows), 16)
    np.testing.assert_allclose(pixels, colour.astype(float) / 257, atol=1)


def test_arrays_with_transparency_show_white_too():
    assert (as_pixels(np.zeros((4, 4, 4), np.uint8), None) == 255).all()
    assert as_pixels(np.zeros((4, 4, 4), np.uint8), None).shape == (4, 4, 3)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_show_white(mode):
    rgba = np.zeros((32, 32, 4), np.uint8)
    rgba[:16] = (255, 255, 255, 0) if mode == "LA" else (255, 0, 0, 0)
    rgba[16:] = (0, 0, 0, 255)
    image = Image.fromarray(rgba)
    image = image.convert("LA") if mode == "LA" else image
    image = image.quantize(4) if mode == "P" else image
    pixels = as_pixels(saved(image, format="PNG"), 32)
    assert (pixels[:16] == 255).all()
    assert (pixels[16:] == 0).all()


def test_cmyk_jpeg_has_the_colours_of_the_same_picture_in_rgb():
    picture = quarters()
    content = saved(picture.convert("CMYK"), format="JPEG", quality=95, subsampling=0)
    assert Image.open(io.BytesIO(content)).mode == "CMYK"
    difference = as_pixels(content, 64).astype(int) - np.asarray(picture)
    assert np.abs(difference).mean() < 3


def test_the_first_frame_of_an_animation_is_taken():
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "green")]
    content = saved(frames[0], format="GIF", save_all=True, append_images=frames[1:])
    assert as_pixels(content, 16)[0, 0].tolist() == [255, 0, 0]


def test_one_pixel_is_an_image():
    assert (as_pixels(saved(Image.new("RGB", (1, 1), (9, 8, 7)), format="PNG"), 8) == (9, 8, 7)).all()


def test_the_centre_square_is_kept():
    wide = np.zeros((10, 30, 3), np.uint8)
    wide[:, 10:20] = 255
    assert (as_pixels(wide, 10) == 255).all()
    assert (as_pixels(saved(Image.fromarray(wide.transpose(1, 0, 2)), format="PNG"), 10) == 255).all()
    assert as_pixels(np.zeros((1, 50_000), np.uint8), 96).shape == (96, 96, 3)


def test_a_large_jpeg_read_at_reduced_scale_looks_like_the_whole_one():
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((1600, 1200))
    content = saved(smooth, format="JPEG", quality=95)
    whole = Image.open(io.BytesIO(content)).convert("RGB")
    expected = whole.resize((96, 96), Image.Resampling.BICUBIC, box=(200, 0, 1400, 1200))
    difference = as_pixels(content, 96).astype(int) - np.asarray(expected)
    assert np.abs(difference).mean() < 2


def test_without_a_size_images_keep_their_shape_and_grey_stays_grey():
    assert as_pixels(np.zeros((28, 20), np.uint8), None).shape == (28, 20, 1)
    assert as_pixels(saved(Image.new("L", (20, 28)), format="PNG"), None).shape == (28, 20, 1)
    assert as_pixels(saved(Image.new("RGB", (20, 28)), format="PNG"), None).shape == (28, 20, 3)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (saved(quarters(), format="JPEG")[:600], "cannot be decoded"),
        (b"a text that is named .png", "not an image (it begins with b'a text that ')"),
        (b"", "an empty file"),
        (png_with_head(50_000, 50_000), "pixels"),
        (png_with_head(10_000, 9_000), "pixels"),
        (saved(Image.fromarray(np.ones((4, 4), np.float32)), format="TIFF"), "floating-point pixels"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_what_cannot_be_read_says_why(content, reason):
    with pytest.raises(Unreadable, match=reason.replace("(", r"\(").replace(")", r"\)")):
        as_pixels(content, 96)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_too_large_an_image_is_refused_even_where_warnings_are_off():
    with pytest.raises(Unreadable, match="10000 x 9000 pixels; at most 89,478,485 are read"):
        as_pixels(png_with_head(10_000, 9_000), 96)


@pytest.mark.parametrize(
    "array", [np.zeros((4, 4)), np.zeros((4, 4, 2), np.uint8), np.zeros((0, 4), np.uint8)]
)
def test_arrays_that_are_no_images_are_refused(array):
    with pytest.raises(Unreadable, match="expected uint8 pixels"):
        as_pixels(array, 8)
