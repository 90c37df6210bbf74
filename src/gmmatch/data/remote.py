"""Files behind an address: `s3://`, `gs://`, `az://`, `hf://`, `https://` and whatever fsspec knows.

Object stores are reached through Arrow's own file systems, the web by `http.py`, the rest through fsspec
(extra `remote`). What is lost on the way is asked for again, with growing pauses; what asking again would not
mend is said at once.
"""

import atexit
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from ..errors import GmmatchError, InvalidInput, InvalidParameter, require
from .http import HttpFile, Unavailable, describe, fetch, is_http, path_of, shown

PATIENCE_SECONDS = 60.0  # without any success: an object store that is gone for longer is gone
_ADDRESS = re.compile(r"(s3a?|gc?s|az|abfss?|hf|https?|memory|file):/{1,2}([^/].*)")
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0
# What object stores say where asking again would not help, and what that means. First match counts.
_REASONS = (
    (("NO_SUCH_BUCKET", "NoSuchBucket", "bucket does not exist"), "there is no such bucket or container"),
    (("NO_SUCH_KEY", "NoSuchKey", "404", "Path does not exist", "HTTP status 404", "RESOURCE_NOT_FOUND"),
     "it is not there, or no longer"),
    (("PermanentRedirect", "HTTP status 301", "MOVED_PERMANENTLY", "AuthorizationHeaderMalformed",
      "wrong region"),
     "it is in another region; name it with AWS_REGION"),
    (("ACCESS_DENIED", "AccessDenied", "HTTP status 403", "INVALID_ACCESS_KEY", "InvalidAccessKeyId",
      "SIGNATURE_DOES_NOT_MATCH", "SignatureDoesNotMatch", "INVALID_CLIENT_TOKEN", "MISSING_AUTHENTICATION",
      "HTTP status 401", "401", "403", "credential", "Unauthorized", "Forbidden"),
     "credentials are missing, or do not allow it (for S3: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a"
     " profile)"),
)  # fmt: skip


class Lost(Exception):
    """A store did not answer, or not in full; asking again may help."""


LOST = (Lost, Unavailable)


def is_remote(name: Any) -> bool:
    """Tell an address from a path."""
    return isinstance(name, str) and "://" in name


@lru_cache(maxsize=64)
def _file_system(scheme: str, host: str, process: int) -> Any:
    if scheme in ("s3", "s3a"):
        # One attempt each: asking again is `patiently`'s, which can be interrupted and says so.
        options: dict[str, Any] = {
            "region": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            "endpoint_override": os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"),
            "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=2),
            "connect_timeout": 5.0,
            "request_timeout": 30.0,
        }
        return fs.S3FileSystem(**{name: value for name, value in options.items() if value is not None})
    if scheme in ("gs", "gcs"):
        return fs.GcsFileSystem()
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if scheme in ("az", "abfs", "abfss") and account:
        return fs.AzureFileSystem(
            account_name=account, account_key=os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
        )
    fsspec = require("fsspec", "fsspec", "remote")
    options = {} if scheme not in ("http", "https") else {"skip_instance_cache": True}
    try:
        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **options)))
    except (ImportError, ValueError) as error:
        raise InvalidInput(f"addresses that begin with {scheme}:// cannot be opened: {error}") from None


def find_file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path in it."""
    scheme, _, path = address.partition("://")
    found = _file_system(scheme, path.partition("/")[0], os.getpid())
    return found, address if scheme in ("http", "https") else path


def open_bytes(file: str) -> AbstractContextManager[Any]:
    """Open a file, here or behind an address, for reading bytes at any place."""
    if is_http(file):
        web: AbstractContextManager[Any] = pa.PythonFile(
            HttpFile(file, lambda: next(patiently(file))), mode="r"
        )
        return web
    if is_remote(file):
        system, path = find_file_system(file)
        found: AbstractContextManager[Any] = system.open_input_file(path)
        return found
    if not is_text(file):  # no name that Arrow opens
        return open(file, "rb")
    local: AbstractContextManager[Any] = pa.OSFile(file)
    return local


def is_text(name: str) -> bool:
    """Return True if a name is UTF-8, as names of files need not be."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


class Attempt:
    """Tries to read from a store, one after the other, with longer and longer pauses between them."""

    def __init__(self, name: str, patience: float) -> None:
        self.name, self.patience = shown(name), patience
        self.succeeded()

    def succeeded(self) -> None:
        """Begin to count anew."""
        self.since, self.pause = time.monotonic(), _FIRST_PAUSE

    def failed(self, error: Exception) -> None:
        """Wait before the next try, or raise a sentence where trying is of no use or patience is over."""
        said = str(error) or type(error).__name__
        told = said.replace(self.name, "").replace(self.name.partition("://")[2], "")
        for words, meaning in () if isinstance(error, Unavailable) else _REASONS:
            if any(word in told for word in words):
                raise InvalidInput(f"{self.name} cannot be read: {meaning} ({_short(said)})") from None
        if time.monotonic() - self.since > self.patience:
            raise InvalidInput(
                f"{self.name} cannot be read: no answer for {self.patience:.0f} s ({_short(said)});"
                " resume=True goes on from what was saved"
            ) from None
        time.sleep(self.pause)
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)


def patiently(name: str) -> Iterator[Attempt]:
    """Yield tries for as long as one fails and there is patience left."""
    attempt = Attempt(name, patience_seconds())
    while True:
        yield attempt


def patience_seconds() -> float:
    """Return for how long an answer is waited for: ``GMMATCH_PATIENCE``, or a minute."""
    given = os.environ.get("GMMATCH_PATIENCE", "") or str(PATIENCE_SECONDS)
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise InvalidParameter(f"GMMATCH_PATIENCE must be a number of seconds, as 60; got {given!r}")
    return seconds


def ask(name: str, function: Any, *arguments: Any) -> Any:
    """Call a function until it succeeds: again after a pause where an answer is lost, as patience lasts."""
    for attempt in patiently(name):
        try:
            return function(*arguments)
        except GmmatchError:
            raise
        except (*LOST, OSError, pa.ArrowException) as error:
            attempt.failed(error)
    raise AssertionError  # tries do not end


def find_files(name: str, endings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files of these kinds that an address names: a file, a folder, or a pattern with `*`."""
    found: tuple[str, ...] = ask(name, _find_files, name, endings)
    if not found:
        raise InvalidInput(f"there is no file of {', '.join(endings)} at {shown(name)}")
    return found


def _find_files(name: str, endings: tuple[str, ...]) -> tuple[str, ...]:
    marks = "*[" if is_http(name) else "*?["  # a question mark begins the query of an address
    if is_http(name) and path_of(name).lower().endswith(endings) and not any(mark in name for mark in marks):
        return (name,)
    system, path = find_file_system(name)
    prefix = name[: len(name) - len(path)]
    if any(mark in path for mark in marks):
        from fnmatch import fnmatchcase

        folder = path[: min(path.index(mark) for mark in marks if mark in path)].rpartition("/")[0]
        infos = system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        infos = [
            info for info in infos if fnmatchcase(info.path, path) and info.path.count("/") == path.count("/")
        ]
    else:
        (info,) = system.get_file_info([path])
        infos = [info]
        if info.type == fs.FileType.Directory:
            infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    files = (info.path for info in infos if info.is_file)
    return tuple(prefix + file for file in files if path_of(file).lower().endswith(endings))


def remote_stamp(file: str) -> str:
    """Return what changes when a file behind an address does."""
    if is_http(file):
        return f"{file} {describe(file).stamp()}"
    system, path = find_file_system(file)
    (info,) = system.get_file_info([path])
    if not info.is_file:
        raise Lost(f"404: there is no file {file}")
    return f"{file} {info.size} {info.mtime_ns}"


def stamps_of(files: Iterable[str]) -> dict[str, str]:
    """Return what changes when files behind addresses do; many are asked for at a time."""
    names = list(files)
    with ThreadPoolExecutor(16) as pool:
        return dict(zip(names, pool.map(lambda file: ask(file, remote_stamp, file), names), strict=True))


def fetched(address: str, most: int | None = None) -> str:
    """Return the path of a copy of a file, of at most so many bytes, which goes with this process."""
    return _fetched(address, ask(address, remote_stamp, address), most)


@lru_cache(maxsize=16)
def _fetched(address: str, stamp: str, most: int | None) -> str:
    folder = tempfile.mkdtemp(prefix="gmmatch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = os.path.join(folder, path_of(address).rpartition("/")[2] or "file")

    def copy() -> None:
        with open(target, "wb") as file:
            if is_http(address):
                fetch(address, file, most)
                return
            with open_bytes(address) as source:
                shutil.copyfileobj(source, file, 1 << 20)

    ask(address, copy)
    return target


def read_in_parts(files: tuple[str, ...], most: int | None) -> tuple[str, ...]:
    """Return files that can be read in parts: in place of those whose server sends them whole, copies."""
    return tuple(
        file if not is_http(file) or ask(file, describe, file).is_constant else fetched(file, most)
        for file in files
    )


def as_address(path: Any) -> str | None:
    """Return the address that a path names, also one that lost a slash on its way through `Path`."""
    found = _ADDRESS.match(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else None
    return None if found is None else f"{found[1]}://{found[2]}"


def check_free(address: str, overwrite: bool) -> None:
    """Refuse to write where something is, or where nothing may be written or read."""
    with remote_errors(address, "written"):
        system, path = find_file_system(address)
        (info,) = system.get_file_info([path])
    if info.type != fs.FileType.NotFound and not overwrite:
        raise InvalidInput(f"cannot write {address}: it exists already; overwrite=True replaces it")


def send(path: Path, address: str) -> None:
    """Move a file, or a folder, to an address; each file appears there whole or not at all."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in files:
        target = address if file == path else f"{address.rstrip('/')}/{file.relative_to(path).as_posix()}"
        with remote_errors(target, "written"):
            system, place = find_file_system(target)
            with file.open("rb") as source, system.open_output_stream(place) as sink:
                while content := source.read(8 << 20):
                    sink.write(content)


@contextmanager
def remote_errors(name: str, what: str) -> Iterator[None]:
    """Say in one sentence why something behind an address cannot be written."""
    try:
        yield
    except GmmatchError:
        raise
    except (OSError, pa.ArrowException) as error:
        said = str(error)
        meaning = next((text for words, text in _REASONS if any(word in said for word in words)), "it failed")
        raise InvalidInput(f"{name} cannot be {what}: {meaning} ({_short(said)})") from None


def _short(said: str) -> str:
    first = said.splitlines()[0] if said else ""
    return first if len(first) <= 200 else f"{first[:200]}..."
