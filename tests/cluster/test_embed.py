"""Encoders spread over a cluster: the same vectors, the same cache, whatever is lost on the way."""

import csv
import os
import signal
from contextlib import contextmanager

import pytest

from gmmatch import api, progress
from gmmatch.compute.ray import ray_engine
from gmmatch.encoders import embed_input
from gmmatch.errors import InvalidParameter

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("cluster"),
]

OPTIONS = {"text": "body", "labels": "topic", "batch_size": 16}


@pytest.fixture
def tickets(tmp_path):
    pytest.importorskip("wordllama", reason="wordllama is not installed")
    with (tmp_path / "tickets.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["body", "topic"])
        writer.writerows(
            [f"order {n} of {n * 7 % 13} parts is late by {n % 5} days", n % 3] for n in range(999)
        )
    return tmp_path / "tickets.csv"


def files(output):
    return output.read_bytes(), output.with_suffix(".parquet").read_bytes()


def test_the_vectors_are_those_of_one_machine_though_a_worker_is_lost(tickets, tmp_path):
    expected = embed_input(
        tickets, "wordllama", output=tmp_path / "a.npy", cache_dir=tmp_path / "one", **OPTIONS
    )
    killed = []

    @contextmanager
    def listener(name, total):
        def advance(count):
            if name == "encoding with wordllama" and not killed:
                killed.append(engine.members[-1].process)
                os.kill(killed[0], signal.SIGKILL)

        yield advance

    with ray_engine(None, workers=2) as engine, progress.listen(listener):
        found = embed_input(tickets, "wordllama", output=tmp_path / "b.npy", cache_dir=tmp_path / "two",
                            engine=engine, **OPTIONS)  # fmt: skip
    assert killed
    assert files(tmp_path / "a.npy") == files(tmp_path / "b.npy")
    assert found.ids.tolist() == expected.ids.tolist()
    # What the cluster encoded is known to this machine, and the other way round.
    again = embed_input(tickets, "wordllama", cache_dir=tmp_path / "two", **OPTIONS)
    assert again.encoded == 0
    known = api.embed(tickets, "wordllama", engine="ray", workers=1, cache_dir=tmp_path / "one", **OPTIONS)
    assert (known.encoded, known.embeddings.tobytes()) == (0, expected.embeddings.tobytes())


def test_what_has_no_path_or_name_is_refused(tickets):
    with pytest.raises(InvalidParameter, match="open the input by its path"):
        api.embed(["a text"], "wordllama", engine="ray", workers=1)
