"""CSV and TSV, where a row that is broken or not UTF-8 is one bad row and not the end of the file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InvalidInput
from ..base import Unreadable

_SMALLEST_BLOCK, _LARGEST_BLOCK = 1 << 20, 64 << 20


def decoded(value: bytes) -> str | Unreadable:
    """Return bytes as text, or the reason why they are not."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        return Unreadable(f"not UTF-8 (byte 0x{value[error.start]:02x} at position {error.start})")


class CsvFile:
    """The columns of a CSV file, each parsed when it is first read.

    Parameters
    ----------
    path
        For messages.
    content
        The file's bytes.
    delimiter
        What stands between values.
    """

    def __init__(self, path: Path, content: bytes, delimiter: str) -> None:
        head = decoded(content.partition(b"\n")[0])
        if isinstance(head, Unreadable):
            raise InvalidInput(f"the first line of {path}, which names the columns, is {head}")
        self.path = path
        self._delimiter = delimiter
        # Arrow hands over broken rows only as UTF-8, so other bytes go in, and come out again, as Latin-1.
        self._recoded = isinstance(decoded(content), Unreadable)
        self._content = content.decode("latin-1").encode("utf-8") if self._recoded else content
        everything, self.broken = self._parse(None)
        self.names = tuple(self._inner(name.encode()).decode() for name in everything.column_names)
        self.rows = everything.num_rows + len(self.broken)
        self._loaded: dict[str, list[Any]] = {}

    def read(self, name: str, start: int, stop: int) -> list[Any]:
        """Return values of a column: text, None where empty, or the reason why it is not text."""
        if name not in self._loaded:
            values: list[Any] = [None] * self.rows
            good = np.delete(np.arange(self.rows), sorted(self.broken))
            found = self._parse(name)[0].column(0).to_pylist()
            for row, value in zip(good.tolist(), found, strict=True):
                values[row] = decoded(self._inner(value)) if value else None
            self._loaded[name] = values
        return self._loaded[name][start:stop]

    def _inner(self, value: bytes) -> bytes:
        return value.decode("utf-8").encode("latin-1") if self._recoded else value

    def _parse(self, name: str | None) -> tuple[Any, dict[int, str]]:
        """Return one column as bytes, or all for their names, and the broken rows with their reasons."""
        import pyarrow as pa
        from pyarrow import csv

        broken: dict[int, str] = {}

        def skip(row: Any) -> str:
            # The head is row 1, so the first row of values is row 2.
            broken[row.number - 2] = f"{row.actual_columns} values for {row.expected_columns} columns"
            return "skip"

        column = None if name is None else (name.encode().decode("latin-1") if self._recoded else name)
        # Arrow wants each row to fit into a block.
        block = min(max(len(self._content) + 1, _SMALLEST_BLOCK), _LARGEST_BLOCK)
        try:
            table = csv.read_csv(
                io.BytesIO(self._content),
                csv.ReadOptions(use_threads=False, block_size=block),
                csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=skip
                ),
                csv.ConvertOptions(
                    check_utf8=False,
                    include_columns=[] if column is None else [column],
                    column_types={} if column is None else {column: pa.binary()},
                ),
            )
        except pa.ArrowInvalid as error:
            raise InvalidInput(f"cannot read {self.path}: {str(error).splitlines()[0]}") from error
        return table, broken
