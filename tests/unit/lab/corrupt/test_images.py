"""The five image corruptions: on their pixels, their statistics, and against other implementations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy import ndimage

from gmmatch import corrupt
from gmmatch.errors import InvalidInput, InvalidInputType, InvalidParameter
from gmmatch.lab.corrupt._kinds import STRENGTHS
from gmmatch.lab.corrupt.preview import contact_sheet, sample_image, save_contact_sheet

KINDS = corrupt.IMAGE_KINDS
SEVERITIES = range(1, 6)


def photographs(count: int, side: int, colour: bool = True, dtype: type = np.uint8) -> np.ndarray:
    """Different crops of one photograph: real edges, flat parts and texture."""
    whole = sample_image(256)
    rng = np.random.default_rng(3)
    crops = []
    for _ in range(count):
        size = int(rng.integers(max(side, 96), 256))
        top, left = rng.integers(0, 256 - size + 1, 2)
        crop = Image.fromarray(whole[top : top + size, left : left + size])
        crops.append(np.asarray(crop.resize((side, side), Image.Resampling.BOX)))
    images = np.stack(crops)
    if not colour:
        images = images[..., 1]
    return images if dtype == np.uint8 else (images / 255).astype(dtype)


def mean_error(images: np.ndarray, corrupted: np.ndarray) -> float:
    return float(np.abs(corrupted.astype(float) - images).mean())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", [28, 32, 64, 224])
@pytest.mark.parametrize(("colour", "dtype"), [(True, np.uint8), (False, np.uint8), (True, np.float32)])
def test_error_grows_with_severity_and_nothing_leaves_the_range(kind, side, colour, dtype):
    images = photographs(12, side, colour, dtype)
    untouched = images.copy()
    errors = []
    for severity in SEVERITIES:
        corrupted, mask = getattr(corrupt, kind)(images, severity=severity, rng=1)
        assert mask.all()
        assert corrupted.dtype == images.dtype
        assert corrupted.shape == images.shape
        assert corrupted.min() >= 0
        assert corrupted.max() <= (255 if dtype == np.uint8 else 1)
        errors.append(mean_error(images, corrupted) / (255 if dtype == np.uint8 else 1))
    assert (np.diff(errors) > 0).all()
    assert 0.005 < errors[0] < errors[-1] < 0.5
    np.testing.assert_array_equal(images, untouched)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_and_floats_are_damaged_alike(kind):
    images = photographs(6, 32)
    as_bytes, _ = getattr(corrupt, kind)(images, severity=3, rng=5)
    as_floats, _ = getattr(corrupt, kind)((images / 255).astype(np.float32), severity=3, rng=5)
    assert np.abs(as_bytes / 255 - as_floats).max() <= 0.5 / 255 + 1e-5


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "occlusion"])
def test_no_wrap_around_at_black_and_white(kind):
    """A half black, half white picture stays dark on the dark half and light on the light one."""
    images = np.zeros((40, 64, 64), dtype=np.uint8)
    images[:, :, 32:] = 255
    corrupted, _ = getattr(corrupt, kind)(images, severity=1, rng=0)
    dark, light = corrupted[:, :, :16], corrupted[:, :, 48:]
    assert (light.astype(int).min() > dark.astype(int).max()).all()
    assert abs(light.astype(int).mean() - 255) < 80


def test_gaussian_noise_agrees_with_scikit_image():
    util = pytest.importorskip("skimage.util", reason="scikit-image is not installed")
    images = photographs(8, 64, dtype=np.float64)
    for severity in SEVERITIES:
        deviation = STRENGTHS["gaussian_noise"][severity - 1]
        ours, _ = corrupt.gaussian_noise(images, severity, rng=0)
        theirs = util.random_noise(images, mode="gaussian", rng=7, var=deviation**2)
        assert mean_error(images, ours) == pytest.approx(mean_error(images, theirs), rel=0.01)
        quantiles = np.linspace(0.01, 0.99, 20)
        np.testing.assert_allclose(
            np.quantile(ours - images, quantiles), np.quantile(theirs - images, quantiles), atol=0.01
        )


def test_gaussian_noise_is_normal_with_the_stated_deviation():
    gray = np.full((4, 128, 128), 0.5)
    for severity, deviation in enumerate(STRENGTHS["gaussian_noise"][:3], start=1):
        noise = corrupt.gaussian_noise(gray, severity)[0] - 0.5
        assert noise.mean() == pytest.approx(0, abs=3e-3)
        assert noise.std() == pytest.approx(deviation, rel=0.02)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_resolution_averages_areas_and_enlarges_linearly(severity):
    """Areas by brute force: every pixel repeated until blocks fit; then Pillow's linear filter."""
    images = photographs(3, 60, colour=False, dtype=np.float32)[:, :47]
    ours, _ = corrupt.resolution(images, severity)
    scale = STRENGTHS["resolution"][severity - 1]
    rows, columns = round(47 * scale), round(60 * scale)
    for image, coarse in zip(images, ours, strict=True):
        fine = image.astype(np.float64).repeat(rows, axis=0).repeat(columns, axis=1)
        shrunk = fine.reshape(rows, 47, columns, 60).mean(axis=(1, 3)).astype(np.float32)
        expected = Image.fromarray(shrunk).resize((60, 47), Image.Resampling.BILINEAR)
        np.testing.assert_allclose(coarse, np.asarray(expected), atol=2e-6)


@pytest.mark.parametrize("severity", SEVERITIES)
def test_motion_blur_is_a_convolution_along_a_line(severity):
    """A dot shows the kernel; SciPy's convolution with it then predicts any image of the same seed."""
    dot = np.zeros((1, 65, 65))
    dot[0, 32, 32] = 1
    kernel = corrupt.motion_blur(dot, severity, rng=11)[0][0]
    length = 2 + STRENGTHS["motion_blur"][severity - 1] * 65
    y, x = np.mgrid[-32:33, -32:33]
    assert kernel.sum() == pytest.approx(1, abs=1e-6)
    assert [(kernel * y).sum(), (kernel * x).sum()] == pytest.approx([0, 0], abs=1e-6)
    covariance = [[(kernel * a * b).sum() for a in (y, x)] for b in (y, x)]
    across, along = np.linalg.eigvalsh(covariance)
    # A uniform line of this length has the variance length^2 / 12; drawing it on pixels adds at most 1/4.
    assert length**2 / 12 - 0.1 < along < length**2 / 12 + 0.25
    assert 0 <= across < 0.25

    photo = photographs(1, 65, colour=False, dtype=np.float64)
    expected = ndimage.convolve(photo[0], kernel, mode="nearest")
    np.testing.assert_allclose(corrupt.motion_blur(photo, severity, rng=11)[0][0], expected, atol=1e-6)


def test_motion_blur_takes_all_angles():
    dots = np.zeros((400, 33, 33))
    dots[:, 16, 16] = 1
    kernels = corrupt.motion_blur(dots, severity=5, rng=0)[0]
    y, x = np.mgrid[-16:17, -16:17]
    tilt = np.arctan2(2 * (kernels * x * y).sum(axis=(1, 2)), (kernels * (x**2 - y**2)).sum(axis=(1, 2)))
    counts, _ = np.histogram(tilt, bins=8, range=(-np.pi, np.pi))
    assert counts.min() > 25


def test_occlusion_is_one_flat_rectangle_of_random_place_and_size():
    images = photographs(300, 32, dtype=np.float64)
    corrupted, _ = corrupt.occlusion(images, severity=3, rng=0)
    places, areas = set(), []
    for image, hidden in zip(images, corrupted, strict=True):
        changed = (hidden != image).any(axis=2)
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        box = hidden[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert (box == box[0, 0]).all()
        covered = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert (np.abs(box[0, 0] - covered.mean(axis=(0, 1))) >= 0.25 - 1e-9).all()
        places.add((rows[0], columns[0]))
        areas.append(len(rows) * len(columns) / 32**2)
    assert len(places) > 150
    assert np.mean(areas) == pytest.approx(STRENGTHS["occlusion"][2], rel=0.05)
    assert np.std(areas) > 0.01


@pytest.mark.parametrize("side", [28, 32, 64, 224])
def test_fog_lightens_lowers_contrast_and_is_smooth(side):
    images = photographs(8, side)
    veiled, _ = corrupt.fog(images, severity=5, rng=0)
    assert (veiled.mean(axis=(1, 2, 3)) > images.mean(axis=(1, 2, 3)) + 20).all()
    assert (veiled.std(axis=(1, 2, 3)) < 0.6 * images.std(axis=(1, 2, 3))).all()
    black = np.zeros((20, side, side))
    veil, _ = corrupt.fog(black, severity=5, rng=0)
    assert veil.mean() == pytest.approx(0.73 * 0.875, rel=0.06)
    # Neighbouring pixels of fog differ far less than pixels that are far apart.
    assert np.abs(np.diff(veil, axis=1)).mean() < 0.35 * veil.std(axis=(1, 2)).mean()
    assert (np.ptp(veil, axis=(1, 2)) > 0.2).all()


def test_the_share_is_exact_and_each_kind_gets_its_fifth():
    images = photographs(103, 32)
    before = images.copy()
    corrupted, names = corrupt.damage_images(images, share=0.5, rng=4)
    again, mask = corrupt.corrupt_images(images, share=0.5, rng=4)
    np.testing.assert_array_equal(corrupted, again)
    np.testing.assert_array_equal(images, before)
    np.testing.assert_array_equal(mask, names != "")
    np.testing.assert_array_equal((corrupted != images).any(axis=(1, 2, 3)), mask)
    assert mask.sum() == 52
    assert [int((names == kind).sum()) for kind in KINDS] == [11, 11, 10, 10, 10]


@settings(max_examples=40, deadline=None)
@given(
    count=st.integers(1, 30),
    share=st.floats(0, 1),
    side=st.integers(5, 12),
    kinds=st.none() | st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
    severity=st.integers(1, 5),
    dtype=st.sampled_from([np.uint8, np.float16, np.float32, np.float64]),
    seed=st.integers(0, 2**32),
)
def test_any_share_kinds_and_type(count, share, side, kinds, severity, dtype, seed):
    images = np.random.default_rng(seed).integers(0, 256, (count, side, side + 1, 3), dtype=np.uint8)
    if dtype is not np.uint8:
        images = (images / 255).astype(dtype)
    corrupted, mask = corrupt.corrupt_images(images, share, kinds, severity, seed)
    assert mask.sum() == int(np.floor(share * count + 0.5))
    assert corrupted.dtype == dtype
    np.testing.assert_array_equal((corrupted != images).any(axis=(1, 2, 3)), mask)
    assert corrupted.min() >= 0
    assert corrupted.max() <= (255 if dtype is np.uint8 else 1)
    again, _ = corrupt.corrupt_images(images, share, kinds, severity, np.random.default_rng(seed))
    np.testing.assert_array_equal(corrupted, again)


def test_another_seed_damages_other_images():
    images = photographs(100, 32)
    first, second = (corrupt.corrupt_images(images, rng=seed)[1] for seed in (0, 1))
    assert (first != second).any()


def test_blank_images_are_damaged_all_the_same():
    images = np.full((50, 16, 16, 3), 255, dtype=np.uint8)
    corrupted, names = corrupt.damage_images(images, share=1.0)
    assert (corrupted != images).any(axis=(1, 2, 3)).all()
    assert set(names) == {"gaussian_noise", "occlusion", "fog"}
    with pytest.raises(InvalidInput, match=r"image \d+ looks the same after motion_blur and resolution"):
        corrupt.corrupt_images(images, share=0.1, kinds=["motion_blur", "resolution"])
    unchanged, mask = corrupt.motion_blur(images)
    assert not mask.any()
    np.testing.assert_array_equal(unchanged, images)


def test_memory_maps_views_and_single_channels_are_taken(tmp_path):
    images = photographs(10, 28, colour=False)
    np.save(tmp_path / "images.npy", images)
    expected, _ = corrupt.corrupt_images(images, share=0.5)
    mapped, _ = corrupt.corrupt_images(np.load(tmp_path / "images.npy", mmap_mode="r"), share=0.5)
    view, _ = corrupt.corrupt_images(np.stack([images, images], axis=-1)[..., 0], share=0.5)
    column, _ = corrupt.corrupt_images(images[..., None], share=0.5)
    assert type(mapped) is np.ndarray
    for other in (mapped, view, column[..., 0]):
        np.testing.assert_array_equal(other, expected)


@pytest.mark.parametrize(
    ("images", "parameters", "error", "message"),
    [
        (np.zeros((32, 32), np.uint8), {}, InvalidInput, "shape"),
        (np.zeros((32, 32, 3), np.uint8), {}, InvalidInput, r"image\[None\]"),
        (np.zeros((4, 3, 32, 32), np.uint8), {}, InvalidInput, "channels last"),
        (np.zeros((0, 8, 8), np.uint8), {}, InvalidInput, "at least one image"),
        (np.zeros((4, 8, 8), np.int64), {}, InvalidInputType, "int64"),
        (np.full((4, 8, 8), 1.5), {}, InvalidInput, "from 1.5 to 1.5"),
        (np.full((4, 8, 8), np.nan), {}, InvalidInput, r"\[0, 1\]"),
        (np.zeros((4, 8, 8)), {"share": 1.2}, InvalidParameter, "share"),
        (np.zeros((4, 8, 8)), {"share": float("nan")}, InvalidParameter, "share"),
        (np.zeros((4, 8, 8)), {"severity": 0}, InvalidParameter, "from 1 to 5; got 0"),
        (np.zeros((4, 8, 8)), {"severity": 2.5}, InvalidParameter, "severity"),
        (np.zeros((4, 8, 8)), {"kinds": "motion-blurr"}, InvalidParameter, "did you mean 'motion_blur'"),
        (np.zeros((4, 8, 8)), {"kinds": []}, InvalidParameter, "at least one"),
        (np.zeros((4, 8, 8)), {"kinds": ["fog", "fog"]}, InvalidParameter, "each once"),
        (np.zeros((4, 8, 8)), {"rng": -1}, InvalidParameter, "rng"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(images, parameters, error, message):
    with pytest.raises(error, match=message):
        corrupt.corrupt_images(images, **parameters)


def test_the_documented_strengths_are_the_ones_used():
    page = Path(__file__).parents[4] / "docs" / "corrupt.md"
    for kind, strengths in STRENGTHS.items():
        (row,) = [line for line in page.read_text().splitlines() if line.startswith(f"| `{kind}`")]
        assert [float(cell) for cell in row.strip("| ").split("|")[2:]] == list(strengths)


def test_the_contact_sheet_holds_every_kind_and_severity(tmp_path):
    photo = sample_image()
    sheet = contact_sheet(photo)
    assert sheet.shape == (5, 5, *photo.shape)
    errors = np.abs(sheet.astype(float) - photo).mean(axis=(2, 3, 4))
    strengths_only = [row for row, kind in enumerate(KINDS) if kind != "occlusion"]
    assert (np.diff(errors[strengths_only], axis=1) > 0).all()
    assert (sheet.mean(axis=(2, 3, 4)) > 40).all()
    save_contact_sheet(photo, tmp_path / "sheet.png")
    save_contact_sheet(np.zeros((300, 400)), tmp_path / "gray.jpg")
    with Image.open(tmp_path / "sheet.png") as page:
        width, height = page.size
    assert width > 6 * 84
    assert height > 5 * 84
    assert sorted(file.name for file in tmp_path.iterdir()) == ["gray.jpg", "sheet.png"]


def test_importing_needs_neither_torch_nor_a_plotting_library():
    code = (
        "import sys, gmmatch.corrupt as c, numpy as np\n"
        "assert not {'torch', 'matplotlib', 'PIL'} & set(sys.modules), sorted(sys.modules)\n"
        "sys.modules['torch'] = None\n"
        "c.corrupt_images(np.eye(8)[None], share=1.0)\n"
        "try: c.attack(None, np.zeros((1, 8, 8)), [0])\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(corrupt.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == (
        "MissingExtra torch is not installed; install it with: pip install torch (the extra gmmatch[torch])"
    )
