"""Structures in Thrift's compact form, by which Parquet describes files and pages.

Arrow reads them too, but some that are damaged end the whole process where one asks it for what they say.
Here they end in `Odd`, and so does whatever could be read in more than one way.
"""

from typing import Any

I32, I64, BYTES, LIST, STRUCTURE = 5, 6, 8, 9, 12
"""Kinds of values; those of a set of values, and of numbers with a point, are of no use here."""

_TRUE, _FALSE = 1, 2
_BITS_OF = {4: 16, I32: 32, I64: 64}
_FIXED = {3: 1, 7: 8}  # bytes of the kinds that are passed over
_MOST_FIELD = 2**15 - 1
_MOST_NESTED = 16


class Odd(Exception):
    """What is stored is damaged, or stored in a way that is not understood here."""


class Structure:
    """The fields of a structure, by number."""

    def __init__(self) -> None:
        self._fields: dict[int, tuple[int, Any]] = {}

    def put(self, number: int, kind: int, value: Any) -> None:
        """Take note of a field; one that comes twice could be read in two ways."""
        if not 0 < number <= _MOST_FIELD or number in self._fields:
            raise Odd
        self._fields[number] = kind, value

    def get(self, number: int, kind: int) -> Any:
        """Return a field, which must be there and of that kind."""
        found, value = self._fields.get(number, (0, None))
        if found != kind:
            raise Odd
        return value

    def may(self, number: int, kind: int) -> Any:
        """Return a field that need not be there, or None."""
        return self.get(number, kind) if number in self._fields else None

    def numbers(self, kind: int, *wanted: int) -> list[int]:
        """Return several whole numbers of one kind."""
        return [self.get(number, kind) for number in wanted]

    def truth(self, number: int, usual: bool) -> bool:
        """Return a field that is true or false, `usual` where it is not there."""
        found, value = self._fields.get(number, (_TRUE, usual))
        if found not in (_TRUE, _FALSE):
            raise Odd
        return bool(value)

    def many(self, number: int, kind: int) -> list[Any]:
        """Return the entries of a list, all of that kind."""
        of, values = self.get(number, LIST)
        if of != kind and values:
            raise Odd
        return list(values)


def structure(stored: bytes, at: int = 0, depth: int = 0) -> tuple[Structure, int]:
    """Return the structure that begins somewhere, and where it ends; `depth`: how many it is in."""
    found = Structure()
    number = 0
    try:
        while stored[at]:
            step, kind = stored[at] >> 4, stored[at] & 15
            at += 1
            if step:
                number += step
            else:
                number, at = _whole(stored, at, 16)
            value, at = (kind == _TRUE, at) if kind in (_TRUE, _FALSE) else _value(stored, at, kind, depth)
            found.put(number, kind, value)
    except IndexError:
        raise Odd from None
    return found, at + 1


def _value(stored: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > _MOST_NESTED:
        raise Odd
    if kind in _BITS_OF:
        return _whole(stored, at, _BITS_OF[kind])
    if kind == BYTES:
        size, at = varint(stored, at)
        if size > len(stored) - at:
            raise Odd
        return stored[at : at + size], at + size
    if kind == STRUCTURE:
        return structure(stored, at, depth + 1)
    if kind == LIST:
        size, of, at = stored[at] >> 4, stored[at] & 15, at + 1
        if size == 15:
            size, at = varint(stored, at)
        if size > len(stored) - at:  # an entry takes a byte at least
            raise Odd
        values = []
        for _ in range(size):
            value, at = _value(stored, at, of, depth + 1)
            values.append(value)
        return (of, values), at
    if kind in _FIXED:
        return None, at + _FIXED[kind]
    if kind in (_TRUE, _FALSE):  # in a list
        return None, at + 1
    raise Odd


def _whole(stored: bytes, at: int, bits: int) -> tuple[int, int]:
    value, at = varint(stored, at)
    if value >> bits:
        raise Odd
    return (value >> 1) ^ -(value & 1), at


def varint(stored: bytes, at: int) -> tuple[int, int]:
    """Return a number of seven bits to a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = stored[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise Odd
