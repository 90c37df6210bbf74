"""Structures in Thrift's compact form, written out by hand."""

import pytest

from gmmatch.data.thrift import BYTES, I32, I64, LIST, STRUCTURE, Odd, structure, varint


def test_fields_are_found_by_number_and_kind():
    # 1: i32 3; 2: i64 -2; 3: true; 5: bytes "ab"; 6: {1: false}; 40: list of i32 1, -1
    stored = b"\x15\x06\x16\x03\x11\x28\x02ab\x1c\x12\x00\x09\x50\x25\x02\x01\x00"
    found, end = structure(b"?" + stored + b"rest", 1)
    assert end == 1 + len(stored)
    assert found.numbers(I32, 1) == [3]
    assert found.get(2, I64) == -2
    assert found.truth(3, usual=False)
    assert not found.truth(4, usual=False)
    assert found.get(5, BYTES) == b"ab"
    assert not found.get(6, STRUCTURE).truth(1, usual=True)
    assert found.many(40, I32) == [1, -1]
    assert found.may(7, I32) is None


def test_fields_of_another_kind_are_not_taken_for_it():
    found, _ = structure(b"\x15\x06\x16\x06\x19\x15\x02\x00")
    for asked in (lambda: found.get(1, I64), lambda: found.get(9, I32), lambda: found.truth(1, usual=True)):
        with pytest.raises(Odd):
            asked()
    with pytest.raises(Odd):
        found.may(2, I32)
    with pytest.raises(Odd):
        found.many(3, STRUCTURE)


def test_kinds_that_are_of_no_use_are_passed_over():
    # 1: a byte; 2: a number with a point; 3: list of truths; 4: i16 5; 5: an empty list
    stored = b"\x13\xff\x17" + bytes(8) + b"\x19\x21\x01\x02\x14\x0a\x19\x0c\x15\x02\x00"
    found, end = structure(stored)
    assert end == len(stored)
    assert found.get(6, I32) == 1
    assert found.many(5, BYTES) == []
    assert found.get(3, LIST)[1] == [None, None]


@pytest.mark.parametrize(
    "stored",
    [
        b"\x15\x06\x05\x02\x08\x00",  # field 1 twice: after 3, before 4
        b"\x05\x84\x80\x08\x06\x00",  # field 65538, which others take for 2
        b"\x05\x00\x06\x00",  # field 0
        b"\x15\x80\x80\x80\x80\x10\x00",  # an i32 of 33 bits
        b"\x16" + b"\xff" * 10 + b"\x01\x00",  # an i64 of more than 64
        b"\x18\x05ab\x00",  # five bytes of three
        b"\x19\xf5\xff\xff\xff\x7f\x00",  # a list of more entries than there are bytes
        b"\x1d\x00",  # a kind that there is not
        b"\x1b\x00",  # a map
        b"\x15",  # cut off
        b"\x15\x06",
        b"",
        b"\x1c" * 40,  # structures in structures
        b"\x19" + b"\x19" * 40 + b"\x00",  # lists in lists
    ],
)
def test_what_is_damaged_or_could_be_read_in_two_ways_is_odd(stored):
    with pytest.raises(Odd):
        structure(stored)


def test_numbers_of_seven_bits_to_a_byte():
    assert varint(b"\x00", 0) == (0, 1)
    assert varint(b"?\xac\x02?", 1) == (300, 3)
    assert varint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
    with pytest.raises(IndexError):
        varint(b"\x80", 0)
