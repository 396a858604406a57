"""Reads any well-formed CBOR (RFC 8949), without making values of it.

This is the slow and general reader: it finds where an item ends (`item_end`) and what its
deterministic form is (`deterministic_form`), for items that the profile refuses, so that a
refusal can name the right check. Items that the profile accepts are read by `schemas.cbor`.

1. An item nests at most `DEPTH_MAX` deep; deeper is refused like what is not well-formed.
2. The deterministic form is RFC 8949 §4.2.1: shortest heads, definite lengths, map keys in the
   bytewise order of their encodings, each once. Floats are kept as they are.

Invariant: `deterministic_form(data) == data` for every item that `schemas.cbor.encode` writes.
Profile: §6.6.
"""

from typing import Literal, NamedTuple

DEPTH_MAX = 64
"""Containers and tags inside one another that this reader follows; the profile allows 16."""

BREAK = 0xFF
INDEFINITE = 31

Check = Literal["decode", "canonical"]


class CborError(Exception):
    """Bytes that are not what §6.6 asks for, or a value that cannot be written so.

    `check` is the step of the verification that failed: `decode` (not one well-formed item, or
    outside the data model) or `canonical` (not the deterministic encoding of what it says).
    `position` counts bytes from 0 to where it shows; 0 where no byte can be named.
    """

    def __init__(self, check: Check, detail: str, position: int = 0) -> None:
        super().__init__(f"{check}: {detail} (byte {position})")
        self.check: Check = check
        self.detail = detail
        self.position = position


class Head(NamedTuple):
    """The head of one item: its major type, low five bits, argument, and the byte after it."""

    major: int
    info: int
    argument: int
    after: int


def read_head(data: bytes, position: int) -> Head:
    """The head at `position`. Raises `CborError("decode")` where there is none."""
    if position >= len(data):
        raise CborError("decode", "the bytes end inside an item", position)
    major, info = data[position] >> 5, data[position] & 31
    if info < 24:
        return Head(major, info, info, position + 1)
    if info == INDEFINITE and major in (2, 3, 4, 5, 7):
        return Head(major, info, 0, position + 1)
    if info > 27:
        raise CborError("decode", "a reserved head", position)
    after = position + 1 + (1 << (info - 24))
    if after > len(data):
        raise CborError("decode", "the bytes end inside a head", position)
    argument = int.from_bytes(data[position + 1 : after], "big")
    if major == 7 and info == 24 and argument < 32:
        raise CborError("decode", "a simple value in two bytes that has one", position)
    return Head(major, info, argument, after)


def write_head(major: int, argument: int) -> bytes:
    """The shortest head of a major type (0-7) with an argument (0 to 2**64 - 1)."""
    if argument < 24:
        return bytes((major << 5 | argument,))
    size_log2 = next(log2 for log2 in range(4) if argument < 1 << (8 << log2))
    return bytes((major << 5 | 24 + size_log2,)) + argument.to_bytes(1 << size_log2, "big")


def item_end(data: bytes, position: int) -> int:
    """Where the item that begins at `position` ends, by its heads alone.

    Raises `CborError("decode")` if no well-formed item begins there.
    """
    start, due = position, 1
    while due:
        major, info, argument, position = read_head(data, position)
        if info == INDEFINITE:
            return _form(data, start, DEPTH_MAX)[1]
        due -= 1
        if major in (2, 3):
            position += argument
        elif major > 3:
            due += (0, 0, 0, 0, argument, 2 * argument, 1, 0)[major]
    if position > len(data):
        raise CborError("decode", "the bytes end inside a string", start)
    return position


def deterministic_form(data: bytes) -> bytes:
    """What `data`, exactly one well-formed item, looks like under RFC 8949 §4.2.1.

    Raises `CborError("decode")` if `data` is not one well-formed item and nothing after it.
    """
    form, end = _form(data, 0, DEPTH_MAX)
    if end != len(data):
        raise CborError("decode", "bytes after the item", end)
    return form


def first_difference(one: bytes, other: bytes) -> int:
    """The first position at which two byte strings differ (the shorter one's end at the latest)."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _form(data: bytes, position: int, depth_left: int) -> tuple[bytes, int]:
    """Deterministic form and end of the item at `position`; recursion is bounded by depth."""
    head = read_head(data, position)
    if head.major in (2, 3):
        return _string_form(data, position, head)
    if head.major == 7:
        if head.info == INDEFINITE:
            raise CborError("decode", "a break where an item is due", position)
        return data[position : head.after], head.after
    if head.major < 2:
        return write_head(head.major, head.argument), head.after
    if depth_left == 0:
        raise CborError("decode", f"nested deeper than {DEPTH_MAX}", position)
    if head.major == 6:
        form, end = _form(data, head.after, depth_left - 1)
        return write_head(6, head.argument) + form, end
    forms, end = _member_forms(data, head, depth_left - 1)
    if head.major == 4:
        return write_head(4, len(forms)) + b"".join(forms), end
    if len(forms) % 2:
        raise CborError("decode", "a map key without a value", end)
    pairs = dict(zip(forms[::2], forms[1::2], strict=True))
    members = b"".join(key + pairs[key] for key in sorted(pairs))
    return write_head(5, len(pairs)) + members, end


def _member_forms(data: bytes, head: Head, depth_left: int) -> tuple[list[bytes], int]:
    """The forms of an array's or map's members, keys and values alternating, and the end."""
    forms: list[bytes] = []
    position = head.after
    endless = head.info == INDEFINITE
    due = head.argument * (2 if head.major == 5 else 1)
    while endless or len(forms) < due:
        if endless and position < len(data) and data[position] == BREAK:
            return forms, position + 1
        form, position = _form(data, position, depth_left)
        forms.append(form)
    return forms, position


def _string_form(data: bytes, position: int, head: Head) -> tuple[bytes, int]:
    """A byte or text string, its chunks joined; each chunk of a text is UTF-8 by itself."""
    chunks: list[bytes] = []
    if head.info != INDEFINITE:
        chunk, end = _chunk(data, position, head)
        return write_head(head.major, len(chunk)) + chunk, end
    end = head.after
    while end >= len(data) or data[end] != BREAK:
        inner = read_head(data, end)
        if inner.major != head.major or inner.info == INDEFINITE:
            raise CborError("decode", "not a chunk of the string it stands in", end)
        chunk, end = _chunk(data, end, inner)
        chunks.append(chunk)
    joined = b"".join(chunks)
    return write_head(head.major, len(joined)) + joined, end + 1


def _chunk(data: bytes, position: int, head: Head) -> tuple[bytes, int]:
    """The content of a definite string and its end."""
    end = head.after + head.argument
    if end > len(data):
        raise CborError("decode", "the bytes end inside a string", position)
    content = data[head.after : end]
    if head.major == 3:
        try:
            content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise CborError("decode", "a text that is not UTF-8", position) from error
    return content, end
