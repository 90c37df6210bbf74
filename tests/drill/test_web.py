"""Files behind `http://`: the rows of one content or one sentence, whatever the server does."""

import io
import itertools
import os
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gmmatch
from gmmatch.data import remote
from gmmatch.errors import InvalidInput, InvalidParameter

from .web import Site, serve

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4000, 32)).astype(np.float32)
LABELS = RNG.integers(0, 3, 4000)


def npy_of(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def parquet_of(rows):
    file = io.BytesIO()
    flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    pq.write_table(pa.table({"embedding": flat}), file, row_group_size=1000)
    return file.getvalue()


def arrow_of(rows):
    file = io.BytesIO()
    flat = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    table = pa.table({"embedding": flat})
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    return file.getvalue()


FILES = {"rows.npy": npy_of(ROWS), "rows.parquet": parquet_of(ROWS), "rows.arrow": arrow_of(ROWS)}


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(remote, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(remote, "_SECONDS", 0.5)
    monkeypatch.setenv("GMMATCH_PATIENCE", "2")


@pytest.fixture
def site():
    with serve(Site(dict(FILES))) as served:
        yield served


def read(address, memory=None):
    opened = gmmatch.open(address, memory=memory)
    rows = np.concatenate([opened.rows[start : start + 700] for start in range(0, len(opened), 700)])
    opened.check_unchanged()
    return rows


@pytest.mark.parametrize("name", FILES)
class TestEveryKind:
    def test_is_read_in_ranges(self, site, name):
        np.testing.assert_array_equal(read(f"{site.address}/{name}"), ROWS)

    def test_errors_that_pass_are_asked_again(self, site, name):
        site.failures = [500, 503, 502, 429]
        np.testing.assert_array_equal(read(f"{site.address}/{name}"), ROWS)
        site.every = 3
        np.testing.assert_array_equal(read(f"{site.address}/{name}"), ROWS)

    def test_short_bodies_are_asked_again(self, site, name):
        site.short = 3
        np.testing.assert_array_equal(read(f"{site.address}/{name}"), ROWS)

    @pytest.mark.parametrize("length", [True, False])
    def test_a_server_without_ranges_is_read_whole(self, site, name, length):
        site.ranges, site.length, site.short = False, length, 1
        np.testing.assert_array_equal(read(f"{site.address}/{name}"), ROWS)

    def test_a_server_without_ranges_is_refused_what_is_too_large(self, site, name):
        site.ranges = False
        with pytest.raises(InvalidInput, match=r"must be read whole.*larger than memory allows \(0 MB\)"):
            read(f"{site.address}/{name}", memory=300_000)

    def test_signed_addresses_are_known_by_their_path_and_their_secrets_are_not_shown(self, site, name):
        site.token = "secret"
        np.testing.assert_array_equal(read(f"{site.address}/{name}?token=secret&x=*"[:-4]), ROWS)
        with pytest.raises(InvalidInput, match="credentials are missing") as caught:
            read(f"{site.address}/{name}?token=guessed")
        assert "guessed" not in str(caught.value)

    def test_what_is_not_there_is_said_at_once(self, site, name):
        started = time.monotonic()
        with pytest.raises(InvalidInput, match=r"it is not there, or no longer \(the server answered 404\)"):
            read(f"{site.address}/other-503-{name}")
        assert time.monotonic() - started < 1.5

    @pytest.mark.parametrize("sign", ["tags", "dates"])
    def test_a_file_that_changes_is_refused(self, site, name, sign):
        site.tags, site.dates = sign == "tags", sign == "dates"
        for _ in range(2):  # what the end of a Parquet file says is read once
            site.requests = 0
            read(f"{site.address}/{name}")
        needed = site.requests
        for after in range(2, needed):
            site.requests, site.change_after = 0, after
            with pytest.raises(InvalidInput, match=r"changed while it was in use|not a readable|damaged"):
                read(f"{site.address}/{name}")

    def test_without_any_sign_of_a_change_the_file_is_fetched_once(self, site, name):
        site.tags = False
        for after in range(1, 7):
            site.requests, site.change_after = 0, after
            try:
                rows = read(f"{site.address}/{name}")
            except InvalidInput as error:
                assert "not a readable" in str(error)  # noqa: PT017
                continue
            # All of one content, or all of the other, of which the second half is zeros.
            half = len(FILES["rows.npy"]) // 2 - (len(FILES["rows.npy"]) - ROWS.nbytes)
            after_change = np.frombuffer(ROWS.tobytes()[:half].ljust(ROWS.nbytes, b"\0"), np.float32)
            assert np.array_equal(rows, ROWS) or (
                name == "rows.npy" and np.array_equal(rows.ravel(), after_change)
            )
        assert np.array_equal(rows, ROWS)

    def test_two_bytes_a_second_are_a_time_out(self, site, name):
        site.pause = 0.05
        started = time.monotonic()
        with pytest.raises(InvalidInput, match=r"no answer for 2 s \(only \d+ bytes came"):
            read(f"{site.address}/{name}")
        assert time.monotonic() - started < 20

    def test_another_part_than_was_asked_for_is_not_believed(self, site, name):
        site.shifted = True
        with pytest.raises(InvalidInput, match="the server sent another part than was asked for"):
            read(f"{site.address}/{name}")

    def test_a_body_that_never_comes_is_a_time_out(self, site, name):
        site.stuck = True
        with pytest.raises(InvalidInput, match=r"no answer for 2 s \(.*timed out"):
            read(f"{site.address}/{name}")


def test_labels_are_those_that_the_server_has_now(site, tmp_path):
    site.files["labels.npy"] = npy_of(LABELS)
    first = gmmatch.open(ROWS, labels=f"{site.address}/labels.npy?token=1").labels
    site.files["labels.npy"], site.tags = npy_of(LABELS[::-1].copy()), False
    second = gmmatch.open(ROWS, labels=f"{site.address}/labels.npy?token=1").labels
    assert first.tolist() == LABELS.tolist()
    assert second.tolist() == LABELS[::-1].tolist()


def test_memory_may_be_text(site):
    site.ranges = False
    np.testing.assert_array_equal(read(f"{site.address}/rows.npy", memory="50MB"), ROWS)


def test_an_address_that_is_none_is_one_sentence_without_its_password():
    with pytest.raises(InvalidInput, match="not an address of the web: Invalid IPv6 URL") as caught:
        gmmatch.open("http://me:word@[::1/rows.npy")
    assert "word" not in str(caught.value)


def test_names_and_passwords_are_sent_and_not_shown(site):
    host = site.address.removeprefix("http://")
    np.testing.assert_array_equal(read(f"http://me:word@{host}/rows.npy"), ROWS)
    with pytest.raises(InvalidInput) as caught:
        read(f"http://me:word@{host}/none.npy")
    assert "word" not in str(caught.value)


@pytest.mark.parametrize("given", ["x", "-1", "nan", "1,5"])
def test_a_patience_that_is_no_number_is_one_sentence(site, monkeypatch, given):
    monkeypatch.setenv("GMMATCH_PATIENCE", given)
    with pytest.raises(InvalidParameter, match="GMMATCH_PATIENCE must be a number of seconds, as 60; got"):
        read(f"{site.address}/rows.npy")


@pytest.mark.drill
@pytest.mark.parametrize("name", FILES)
def test_every_mixture_of_faults(site, name, told):
    cases = 0
    expected = gmmatch.select(ROWS, keep=40).indices
    for ranges, tags, dates, length, short, every, change in itertools.product(
        *[(True, False)] * 4, (0, 2), (0, 4), (None, 2, 5, 9)
    ):
        site.ranges, site.tags, site.dates, site.length = ranges, tags, dates, length
        site.short, site.every, site.requests, site.change_after = short, every, 0, change
        if not length and short:
            continue  # the end of a body without a length is where it ends
        try:
            found = gmmatch.select(f"{site.address}/{name}", keep=40).indices
        except InvalidInput as error:
            assert change is not None, error  # noqa: PT017
        else:
            changed = change is not None and not np.array_equal(found, expected)
            assert not changed or (ranges and (tags or dates)) is False or site.change_after < 3
            assert changed or np.array_equal(found, expected)
        cases += 1
    told(
        "a server that fails, cuts off, changes files, sends no ranges or no `ETag`",
        name.rpartition(".")[2],
        cases,
        "the picks of one content, or one sentence",
    )
    assert os.environ["GMMATCH_PATIENCE"] == "2"
