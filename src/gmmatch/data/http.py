"""Files behind `http://` and `https://`: read in ranges of one and the same content, or fetched whole.

What tells one content from another is the length, the `ETag` and the `Last-Modified` that a server sends.
They are compared on every request. A server that sends neither of the latter, or no ranges, is asked for the
whole file once.
"""

from __future__ import annotations

import base64
import http.client
import io
import itertools
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from ..errors import InvalidInput
from ..version import __version__

_SECONDS = 10.0  # without a byte
_LEAST_RATE = 1024  # bytes per second that a server must send, over as many seconds
_CHUNK = 1 << 16
_SKIPPED = 1 << 18  # bytes that are read and thrown away rather than asked for anew
_UNLIKE = itertools.count()


class Unavailable(Exception):
    """A server did not answer, or not in full, or only slowly; asking again may help."""


@dataclass(frozen=True)
class Content:
    """What a server says of a file."""

    size: int | None
    tag: str | None
    modified: str | None
    ranges: bool

    @property
    def is_constant(self) -> bool:
        """Whether parts of it can be asked for, and told from parts of another content."""
        return self.ranges and self.size is not None and (self.tag or self.modified) is not None

    def stamp(self) -> str:
        """Return what is another text where the content is, or may be, another."""
        unlike = "" if self.is_constant else f" {next(_UNLIKE)}"
        return f"{self.size} {self.tag} {self.modified}{unlike}"


_KNOWN: dict[str, Content] = {}  # as last described; every part that is read must be of this


def is_http(name: str) -> bool:
    """Return True for an address of the web."""
    return name.startswith(("http://", "https://"))


def path_of(name: str) -> str:
    """Return the path of an address, without a query, which may hold a signature; other names as they are.

    >>> path_of("https://host/rows.npy?token=1"), path_of("rows.npy")
    ('/rows.npy', 'rows.npy')
    """
    return urlsplit(name).path if is_http(name) else name


def shown(name: str) -> str:
    """Return what to call an address in messages: without password and query, which may be secrets.

    >>> shown("https://me:word@host/rows.npy?token=1")
    'https://host/rows.npy?...'
    """
    if not is_http(name):
        return name
    parts = urlsplit(name)
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return f"{bare}?..." if parts.query else bare


def describe(address: str) -> Content:
    """Ask a server about a file: what its first byte comes with. Later parts must be of this content."""
    with _request(address, 0, 1) as answer:
        found = _content(answer)
    _KNOWN[address] = found
    return found


def fetch(address: str, file: IO[bytes], most: int | None = None) -> None:
    """Write a whole file; refuse more than `most` bytes."""
    with _request(address) as answer:
        size = _content(answer).size
        file.seek(0)
        file.truncate()
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


class Attempts(Protocol):
    """Counts how long an answer has been waited for."""

    def succeeded(self) -> None:
        """Begin to count anew."""

    def failed(self, error: Exception) -> None:
        """Wait before the next try, or raise a sentence."""


class HttpFile(io.RawIOBase):
    """A file behind an address: bytes from any place, in one request while they follow each other."""

    def __init__(self, address: str, attempts: Callable[[], Attempts]) -> None:
        self.address, self._attempts = address, attempts
        self.content = _KNOWN.get(address) or describe(address)
        if not self.content.is_constant:
            raise InvalidInput(f"{shown(address)} cannot be read in parts: its server sends no ranges")
        self._at = 0
        self._answer: Any = None
        self._answer_at = 0
        self._pace = _Pace()

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return where the next byte is read."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; nothing is asked for yet."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.content.size or 0}[whence]
        self._at = start + offset
        return self._at

    def read(self, size: int | None = -1) -> bytes:
        """Return all of the bytes that were asked for, up to the end of the file."""
        left = (self.content.size or 0) - self._at
        wanted = max(0, left if size is None or size < 0 else min(size, left))
        parts, attempt, since = [], self._attempts(), 0
        while wanted:
            try:
                self._go()
                content = self._pace.read(self._answer, min(wanted, _CHUNK))
                if not content:
                    raise Unavailable("the answer ended early")
            except Unavailable as error:
                self._stop()
                if since > _CHUNK:
                    attempt.succeeded()
                attempt.failed(error)
                since = 0
                continue
            except BaseException:
                self._stop()
                raise
            parts.append(content)
            wanted, since = wanted - len(content), since + len(content)
            self._answer_at += len(content)
            self._at = self._answer_at
        return b"".join(parts)

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        content = self.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """End the answer that is under way."""
        self._stop()
        super().close()

    def _go(self) -> None:
        """Make the answer under way, or a new one, go on at the place that is wanted."""
        ahead = self._at - self._answer_at
        if self._answer is None or not 0 <= ahead <= _SKIPPED:
            self._stop()
            self._answer = _request(self.address, self._at)
            self._answer_at, self._pace = self._at, _Pace()
            found = _content(self._answer)
            if not found.ranges:
                raise Unavailable("the server sent another part than was asked for")
            if (found.size, found.tag, found.modified) != (
                self.content.size, self.content.tag, self.content.modified,
            ):  # fmt: skip
                raise InvalidInput(
                    f"{shown(self.address)} changed while it was in use: its length, ETag or Last-Modified is"
                    " not what it was; start again when nothing writes to it"
                )
        while ahead := self._at - self._answer_at:
            content = self._pace.read(self._answer, min(ahead, _CHUNK))
            if not content:
                raise Unavailable("the answer ended early")
            self._answer_at += len(content)

    def _stop(self) -> None:
        if self._answer is not None:
            self._answer.close()
            self._answer = None


class _Pace:
    """Reads from answers, and refuses to wait for one that hardly comes."""

    def __init__(self) -> None:
        self.since, self.bytes = time.monotonic(), 0

    def read(self, answer: Any, size: int) -> bytes:
        """Return some bytes; none at the end."""
        if self.bytes == 0:
            self.since = time.monotonic()  # what passed between two reads is not the server's
        try:
            content: bytes = answer.read1(size)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(str(error) or type(error).__name__) from None
        self.bytes += len(content)
        passed = time.monotonic() - self.since
        if passed >= _SECONDS:
            if content and self.bytes < _LEAST_RATE * passed:
                raise Unavailable(f"only {self.bytes} bytes came in {passed:.0f} s")
            self.bytes = 0
        return content


def _request(address: str, begin: int | None = None, length: int | None = None) -> Any:
    """Ask for a file, or for the part from a byte on; return the answer, whose body is not read yet."""
    parts = urlsplit(address)
    bare = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, parts.query, ""))
    headers = {"User-Agent": f"gmmatch/{__version__}", "Accept-Encoding": "identity"}
    if parts.username is not None:
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(words.encode()).decode()}"
    if begin is not None:
        headers["Range"] = f"bytes={begin}-{'' if length is None else begin + length - 1}"
    try:
        answer = urllib.request.urlopen(urllib.request.Request(bare, headers=headers), timeout=_SECONDS)
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
    if code in (408, 425, 429) or code >= 500:
        return Unavailable(f"the server answered {code}")
    meaning = f"the server answered {code}"
    if code in (404, 410):
        meaning = f"it is not there, or no longer ({meaning})"
    elif code in (401, 403, 407):
        meaning = f"credentials are missing, or do not allow it ({meaning})"
    elif code == 416:
        meaning = "it is empty, or shorter than it was"
    return InvalidInput(f"{shown(address)} cannot be read: {meaning}")


def _content(answer: Any) -> Content:
    """Return what an answer says of the file that it is, or is a part of."""
    headers = answer.headers
    size, ranges = headers.get("Content-Length"), False
    if answer.status == 206:
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", headers.get("Content-Range", "").strip())
        size, ranges = (None, False) if found is None else (found[3], True)
    number = int(size) if size is not None and size.isdigit() else None
    return Content(number, headers.get("ETag"), headers.get("Last-Modified"), ranges)
