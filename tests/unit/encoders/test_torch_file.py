from __future__ import annotations

import numpy as np
import pytest

from gmmatch.encoders.efficientnet import read_weights
from gmmatch.errors import InvalidInput

torch = pytest.importorskip("torch", reason="needs torch to write the files")


def old_layout(path, weights):
    torch.save(weights, path, _use_new_zipfile_serialization=False)
    return path


def test_weights_are_those_that_torch_reads(tmp_path):
    whole = torch.arange(24.0).reshape(2, 3, 4)
    weights = {
        "plain": whole,
        "turned": whole.permute(2, 0, 1),
        "part": whole[1, 1:],
        "scalar": torch.tensor(7),
        "half": torch.tensor([1.5, -2.0], dtype=torch.float16),
    }
    path = old_layout(tmp_path / "weights.pth", weights)
    found = read_weights(path)
    expected = torch.load(path, weights_only=True)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.numpy().dtype
        np.testing.assert_array_equal(found[name], tensor.numpy())


def test_other_files_are_refused(tmp_path):
    torch.save({"a": torch.zeros(2)}, tmp_path / "new.pth")
    old = old_layout(tmp_path / "old.pth", {"a": torch.zeros(2000)})
    (tmp_path / "short.pth").write_bytes(old.read_bytes()[:-100])
    for name in ("new.pth", "short.pth", "missing.pth"):
        with pytest.raises(InvalidInput, match="cannot read the weights"):
            read_weights(tmp_path / name)


def test_a_module_is_refused_and_not_run(tmp_path):
    old_layout(tmp_path / "module.pth", torch.nn.Linear(2, 2))
    with pytest.raises(InvalidInput, match="not data and is not run"):
        read_weights(tmp_path / "module.pth")
