"""Text as a terminal may have it: what would steer a terminal, or reorder a line, is spelled out.

What tenants wrote (ids, classes, names) is in answers and in errors. Every text on its way to a
person passes here, once, where it is printed.

1. Spelled as in JSON, `\\u001b`: the controls C0, DEL and C1, the line and paragraph separators,
   the marks and overrides that change the direction of text, and halves of surrogate pairs.
2. A line break stays where the program itself breaks lines; in a single line it is spelled too.

Not here: JSON, which has its own escapes.
"""

from __future__ import annotations

_STEERING = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
    *range(0xD800, 0xE000),
)
_LINE = {code: f"\\u{code:04x}" for code in _STEERING}
_LINES = {code: text for code, text in _LINE.items() if code != ord("\n")}


def visible(text: str) -> str:
    """A text of one line: nothing in it can begin another one."""
    return text if text.isascii() and text.isprintable() else text.translate(_LINE)


def visible_lines(text: str) -> str:
    """A text of several lines."""
    return text.translate(_LINES)
