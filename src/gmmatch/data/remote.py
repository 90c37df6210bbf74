"""Files behind an address: `s3://`, `gs://`, `az://`, `hf://`, `https://` and whatever fsspec knows.

Object stores are reached through Arrow's own file systems, the web by `HttpFile`, the rest through fsspec
(extra `remote`). A lost request is repeated, with growing pauses; an answer that repeating would not change
is reported at once.

On the web, files are read in ranges of one and the same content: its length, the `ETag` and the
`Last-Modified` that a server sends are compared on every request. A file whose server sends neither of the
latter, or no ranges, is fetched whole, once.
"""

from __future__ import annotations

import atexit
import base64
import http.client
import io
import itertools
import os
import posixpath
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, ParamSpec, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from ..arrays import FloatArray
from ..errors import GmmatchError, InvalidInput, InvalidParameter, first_line, require
from ..files import SHARDS
from ..version import __version__

T = TypeVar("T")
P = ParamSpec("P")

PATIENCE_SECONDS = 60.0  # without any success: an object store that is gone for longer is gone
_ADDRESS = re.compile(r"(s3a?|gc?s|az|abfss?|hf|https?|memory|file):/{1,2}([^/].*)")
_SAME = {"s3a": "s3", "gcs": "gs", "gc": "gs"}  # schemes of one store
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0
_SECONDS = 10.0  # without a byte from a web server
_LEAST_RATE = 1024  # bytes per second that a web server must send, over as many seconds
_CHUNK = 1 << 16
_UNLIKE = itertools.count()
_STATUS = {
    **dict.fromkeys((404, 410), "it is not there, or no longer"),
    **dict.fromkeys((401, 403, 407), "credentials are missing, or do not allow it"),
    416: "it is empty, or shorter than it was",
}
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


class Unavailable(Lost):
    """A web server did not answer, or not in full, or only slowly, for a reason that may pass."""


def is_remote(name: object) -> bool:
    """Return True for an address, False for a path."""
    return isinstance(name, str) and "://" in name


def is_http(name: str) -> bool:
    """Return True for an address of the web."""
    return name.startswith(("http://", "https://"))


def as_address(path: object) -> str | None:
    """Return the address that a path names, also one that lost a slash on its way through `Path`."""
    found = _ADDRESS.match(os.fspath(path)) if isinstance(path, (str, os.PathLike)) else None
    return None if found is None else f"{found[1]}://{found[2]}"


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError as error:  # which does not repeat it: it may hold a password
        raise InvalidInput(f"this is not an address of the web: {error}") from None


def path_of(name: str) -> str:
    """Return the path of an address, without a query, which may hold a signature; other names as they are.

    >>> path_of("https://host/rows.npy?token=1"), path_of("rows.npy")
    ('/rows.npy', 'rows.npy')
    """
    return _split(name).path if is_http(name) else name


def shown(name: str) -> str:
    """Return what to call an address in messages: without password and query, which may be secrets.

    >>> shown("https://me:word@host/rows.npy?token=1")
    'https://host/rows.npy?...'
    """
    if not is_http(name):
        return name
    parts = _split(name)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()
    return f"{bare}?..." if parts.query else bare


class Attempt:
    """Repeated requests to one store, with longer and longer pauses between them."""

    def __init__(self, name: str) -> None:
        self.name, self.patience = shown(name), patience_seconds()
        self.succeeded()

    def succeeded(self) -> None:
        """Begin to count anew."""
        self.since, self.pause = time.monotonic(), _FIRST_PAUSE

    def failed(self, error: Exception) -> None:
        """Wait before the next try; raise `InvalidInput` where trying is of no use or patience is over."""
        said = first_line(error)[:200]
        bare = str(error).replace(self.name, "").replace(self.name.partition("://")[2], "")
        meaning = None if isinstance(error, Unavailable) else _meaning(bare)
        if meaning is not None:
            raise InvalidInput(f"{self.name} cannot be read: {meaning} ({said})") from None
        if time.monotonic() - self.since > self.patience:
            raise InvalidInput(
                f"{self.name} cannot be read: no answer for {self.patience:.0f} s ({said});"
                " resume=True goes on from what was saved"
            ) from None
        time.sleep(self.pause)
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)


def _meaning(message: str) -> str | None:
    """Return what the words of a store mean where asking again would not help."""
    return next((meaning for words, meaning in _REASONS if any(word in message for word in words)), None)


def patience_seconds() -> float:
    """Return for how long an answer is waited for: ``GMMATCH_PATIENCE``, or a minute."""
    given = os.environ.get("GMMATCH_PATIENCE") or str(PATIENCE_SECONDS)
    with suppress(ValueError):
        if float(given) >= 0:
            return float(given)
    raise InvalidParameter(f"GMMATCH_PATIENCE must be a number of seconds, as 60; got {given!r}")


def ask(name: str, function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call a function until it succeeds: again after a pause where an answer is lost, as patience lasts."""
    attempt = Attempt(name)
    while True:
        try:
            return function(*arguments, **options)
        except GmmatchError:
            raise
        except (Lost, OSError, pa.ArrowException) as error:
            attempt.failed(error)


def resumed(
    name: str, blocks: Callable[[int], Iterator[FloatArray]], start: int, stop: int
) -> Iterator[FloatArray]:
    """Yield the rows between two; where a connection is lost, go on with the first row that did not come.

    `blocks`: function of a row that yields the blocks from there on, none beyond `stop`.
    """
    attempt, at = Attempt(name), start
    while at < stop:
        try:
            for block in blocks(at):
                at += len(block)
                attempt.succeeded()
                yield block
                if at == stop:
                    return
            raise InvalidInput(f"{shown(name)} changed while it was read: {stop} rows were expected")
        except Lost as error:
            attempt.failed(error)


# ---- object stores ----


@lru_cache(maxsize=64)
def _file_system(scheme: str, host: str, process: int) -> fs.FileSystem:
    if scheme in ("s3", "s3a"):
        # Few attempts: repeating is the business of `Attempt`, which can be interrupted and reports why.
        return fs.S3FileSystem(
            region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            endpoint_override=os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"),
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
            connect_timeout=5.0,
            request_timeout=30.0,
        )
    if scheme in ("gs", "gcs"):
        return fs.GcsFileSystem()
    account = os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    if scheme in ("az", "abfs", "abfss") and account:
        key = os.environ.get("AZURE_STORAGE_ACCOUNT_KEY")
        return fs.AzureFileSystem(account_name=account, account_key=key)
    fsspec = require("fsspec", "fsspec", "remote")
    options = {} if scheme not in ("http", "https") else {"skip_instance_cache": True}
    try:
        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme, **options)))
    except (ImportError, ValueError) as error:
        raise InvalidInput(f"addresses that begin with {scheme}:// cannot be opened: {error}") from None


def find_file_system(address: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of an address, and the path in it."""
    scheme, _, path = address.partition("://")
    found = _file_system(scheme, path.partition("/")[0], os.getpid())
    return found, address if scheme in ("http", "https") else path


def open_bytes(file: str) -> AbstractContextManager[Any]:
    """Open a file, here or behind an address, for reading bytes at any position."""
    if is_http(file):
        return pa.PythonFile(HttpFile(file), mode="r")  # type: ignore[no-any-return]
    if is_remote(file):
        system, path = find_file_system(file)
        return system.open_input_file(path)  # type: ignore[no-any-return]
    # Arrow opens no file whose name is not UTF-8.
    return pa.OSFile(file) if is_text(file) else open(file, "rb")


def is_text(name: str) -> bool:
    """Return True if a name is UTF-8, as names of files need not be."""
    return name.encode("utf-8", "ignore").decode() == name


def find_files(name: str, endings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files of these kinds that an address names: a file, a folder, or a pattern with `*`."""
    found = ask(name, _find_files, name, endings)
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
        folder = path[: min(path.index(mark) for mark in marks if mark in path)].rpartition("/")[0]
        below = system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
        depth = path.count("/")
        infos = [info for info in below if fnmatchcase(info.path, path) and info.path.count("/") == depth]
    else:
        infos = system.get_file_info([path])
        if infos[0].type == fs.FileType.Directory:
            infos = system.get_file_info(fs.FileSelector(path, recursive=True))
    files = (info.path for info in infos if info.is_file)
    return tuple(prefix + file for file in files if path_of(file).lower().endswith(endings))


def file_stamp(file: str) -> str:
    """Return a text that changes when a file does, here or behind an address."""
    if is_http(file):
        return describe(file).stamp()
    if is_remote(file):
        system, path = find_file_system(file)
        info = system.get_file_info(path)
        if not info.is_file:
            raise Lost(f"404: there is no file {file}")
        return f"{info.size} {info.mtime_ns}"
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return "gone"
    return f"{os.path.abspath(file)} {status.st_size} {status.st_mtime_ns}"


def stamps_of(files: Iterable[str]) -> dict[str, str]:
    """Return the stamp of each file; those behind addresses are requested side by side."""
    names = list(files)
    far = [name for name in names if is_remote(name)]
    stamps = {name: file_stamp(name) for name in names if not is_remote(name)}
    if far:
        with ThreadPoolExecutor(16) as pool:
            stamps |= zip(far, pool.map(lambda file: ask(file, file_stamp, file), far), strict=True)
    return stamps


def fetched(address: str, most: int | None = None) -> str:
    """Return the path of a copy of a file, of at most so many bytes, which goes with this process."""
    return _fetched(address, ask(address, file_stamp, address), most)


@lru_cache(maxsize=16)
def _fetched(address: str, stamp: str, most: int | None) -> str:
    folder = tempfile.mkdtemp(prefix="gmmatch-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    target = os.path.join(folder, path_of(address).rpartition("/")[2] or "file")

    def copy() -> None:
        with open(target, "wb") as file:
            if is_http(address):
                _fetch_page(address, file, most)
                return
            with open_bytes(address) as source:
                shutil.copyfileobj(source, file, 1 << 20)

    ask(address, copy)
    return target


def read_in_parts(files: Iterable[str], most: int | None) -> tuple[str, ...]:
    """Return files that can be read in parts: in place of those whose server sends them whole, copies."""
    return tuple(
        file if not is_http(file) or ask(file, describe, file).is_constant else fetched(file, most)
        for file in files
    )


def check_free(address: str, overwrite: bool) -> None:
    """Refuse to write where something is, or where nothing may be written or read."""
    with _write_errors(address):
        system, path = find_file_system(address)
        info = system.get_file_info(path)
    if info.type != fs.FileType.NotFound and not overwrite:
        raise InvalidInput(f"cannot write {address}: it exists already; overwrite=True replaces it")


def check_addresses_apart(addresses: Iterable[str], inputs: Iterable[object]) -> None:
    """Refuse to write to an address that is read, by its name or as a part of a folder or a pattern.

    `inputs`: as for `files.check_apart`.
    """
    names = [name for name in map(as_address, inputs) if name is not None]
    for address, name in itertools.product(addresses, names):
        target, read = _plain(address), _plain(name)
        if read == target or read.startswith(f"{target}:"):  # ``FILE:COLUMN``
            raise InvalidParameter(f"{address} is the input; name another file for the output")
        is_folder = Path(read).suffix.lower() not in SHARDS and not any(mark in read for mark in "*?[")
        pattern = f"{read}/*" if is_folder else read
        if fnmatchcase(target, pattern) and Path(target).suffix.lower() in (*SHARDS, ""):
            raise InvalidParameter(f"{address} would be read with {shown(name)}; name another folder")


def _plain(address: str) -> str:
    """Return an address without a query, and without dots and further slashes in its path."""
    scheme, _, path = shown(address).removesuffix("?...").partition("://")
    return f"{_SAME.get(scheme, scheme)}://{posixpath.normpath(path)}"


def send(path: Path, address: str) -> None:
    """Move a file, or a folder, to an address; each file appears there whole or not at all."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    for file in files:
        target = address if file == path else f"{address.rstrip('/')}/{file.relative_to(path).as_posix()}"
        with _write_errors(target):
            system, inside = find_file_system(target)
            with file.open("rb") as source, system.open_output_stream(inside) as sink:
                shutil.copyfileobj(source, sink, 8 << 20)


@contextmanager
def _write_errors(name: str) -> Iterator[None]:
    """Report in one sentence why something behind an address cannot be written."""
    try:
        yield
    except GmmatchError:
        raise
    except (OSError, pa.ArrowException) as error:
        meaning = _meaning(str(error)) or "it failed"
        raise InvalidInput(f"{name} cannot be written: {meaning} ({first_line(error)[:200]})") from None


# ---- the web ----


@dataclass(frozen=True)
class Content:
    """What a server says of a file."""

    size: int | None
    tag: str | None
    modified: str | None
    ranges: bool

    @property
    def is_constant(self) -> bool:
        """Whether parts of it can be requested, and told from parts of another content."""
        return self.ranges and self.size is not None and (self.tag or self.modified) is not None

    def stamp(self) -> str:
        """Return what is another text where the content is, or may be, another."""
        unlike = "" if self.is_constant else f" {next(_UNLIKE)}"
        return f"{self.size} {self.tag} {self.modified}{unlike}"


_KNOWN: dict[str, Content] = {}  # as last described; every part that is read must be of this


def describe(address: str) -> Content:
    """Ask a server about a file: what its first byte comes with. Later parts must be of this content."""
    with _request(address, 0, 1) as answer:
        found = _content(answer)
    _KNOWN[address] = found
    return found


def _fetch_page(address: str, file: IO[bytes], most: int | None) -> None:
    """Write a whole file of the web; refuse more than `most` bytes."""
    with _request(address) as answer:
        size = _content(answer).size
        pace, done = _Pace(), 0
        while content := pace.read(answer, _CHUNK):
            done += len(content)
            if most is not None and max(done, size or 0) > most:
                raise InvalidInput(
                    f"{shown(address)} must be read whole, because its server sends no ranges, or nothing by"
                    f" which a change would be noticed, and it is larger than memory allows"
                    f" ({most / 1e6:,.0f} MB); download it and open the copy"
                )
            file.write(content)
    if size is not None and done != size:
        raise Unavailable(f"{done} of {size} bytes came")


class HttpFile:
    """A file of the web, as Arrow reads one: bytes from any position, in one request while they follow on."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.content = _KNOWN.get(address) or describe(address)
        if not self.content.is_constant:
            raise InvalidInput(f"{shown(address)} cannot be read in parts: its server sends no ranges")
        self.closed = False
        self._at = 0
        self._answer: http.client.HTTPResponse | None = None
        self._answer_at = 0
        self._pace = _Pace()

    def tell(self) -> int:
        """Return where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a position; nothing is requested yet."""
        self._at = offset + (0, self._at, self.content.size or 0)[whence]
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return all of the bytes that were requested, up to the end of the file."""
        end = self.content.size or 0
        stop = end if size is None or size < 0 else min(self._at + size, end)
        parts, attempt, since = [], Attempt(self.address), 0
        while self._at < stop:
            try:
                content = self._next(min(stop - self._at, _CHUNK))
            except Unavailable as error:
                self.close()
                attempt.failed(error)
                continue
            parts.append(content)
            self._at = self._answer_at = self._at + len(content)
            since += len(content)
            if since > _CHUNK:
                attempt.succeeded()
                since = 0
        return b"".join(parts)

    def close(self) -> None:
        """End the answer that is under way."""
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def _next(self, size: int) -> bytes:
        """Return the bytes at the current position, from the answer under way or from a new one."""
        if self._answer is None or self._at != self._answer_at:
            self.close()
            self._answer, self._pace = _request(self.address, self._at), _Pace()
            found = _content(self._answer, self._at)
            if not found.ranges:
                raise Unavailable("the server sent another part than was asked for")
            if found != replace(self.content, ranges=True):
                raise InvalidInput(
                    f"{shown(self.address)} changed while it was in use: its length, ETag or Last-Modified is"
                    " not what it was; start again when nothing writes to it"
                )
        content = self._pace.read(self._answer, size)
        if not content:
            raise Unavailable("the answer ended early")
        return content


class _Pace:
    """Reads from an answer, and refuses to wait for one that hardly comes."""

    seconds, received = 0.0, 0

    def read(self, answer: http.client.HTTPResponse, size: int) -> bytes:
        """Return some bytes; none at the end."""
        started = time.monotonic()
        try:
            content = answer.read1(size)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(first_line(error)) from None
        self.seconds += time.monotonic() - started
        self.received += len(content)
        if self.seconds >= _SECONDS:
            if content and self.received < _LEAST_RATE * self.seconds:
                raise Unavailable(f"only {self.received} bytes came in {self.seconds:.0f} s")
            self.seconds, self.received = 0.0, 0
        return content


def _request(address: str, begin: int | None = None, length: int | None = None) -> http.client.HTTPResponse:
    """Ask for a file, or for the part from a byte on; return the answer, whose body is not read yet."""
    parts = _split(address)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    headers = {"User-Agent": f"gmmatch/{__version__}", "Accept-Encoding": "identity"}
    if parts.username is not None:
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(words.encode()).decode()}"
    if begin is not None:
        headers["Range"] = f"bytes={begin}-{'' if length is None else begin + length - 1}"
    try:
        request = urllib.request.Request(bare, headers=headers)
        answer: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise _refusal(address, error.code) from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise Unavailable(str(reason) or type(reason).__name__) from None
    except ValueError as error:
        raise InvalidInput(f"{shown(address)} is not an address: {error}") from None
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        answer.close()
        raise InvalidInput(f"{shown(address)} cannot be read: its server packs it, although asked not to")
    return answer


def _refusal(address: str, code: int) -> Exception:
    """Return what a status of HTTP means: to be asked again, or a sentence."""
    meaning = f"the server answered {code}"
    if code in (408, 425, 429) or code >= 500:
        return Unavailable(meaning)
    if code in _STATUS:
        meaning = f"{_STATUS[code]} ({meaning})"
    return InvalidInput(f"{shown(address)} cannot be read: {meaning}")


def _content(answer: http.client.HTTPResponse, begin: int = 0) -> Content:
    """Return what an answer says of the file that it is, or is a part of, from the byte `begin` on."""
    headers = answer.headers
    size, ranges = headers.get("Content-Length"), False
    if answer.status == 206:
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", headers.get("Content-Range", "").strip())
        size, ranges = (None, False) if found is None else (found[3], int(found[1]) == begin)
    number = int(size) if size is not None and size.isdigit() else None
    return Content(number, headers.get("ETag"), headers.get("Last-Modified"), ranges)
