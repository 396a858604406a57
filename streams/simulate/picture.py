"""Usage over time as an SVG: one panel a policy, tenants stacked, what waits above, fairness below.

Drawn as text, without a library. What a colour stands for is in the legend; times are the trace's.

1. The vertical scale is devices, the same in every panel; the line is the capacity.
2. Above the capacity, in grey, what was waited for (cut off at the panel's top).
3. The strip below is Jain's index: white 1, the darker the less fair; grey where nobody wanted
   anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

WIDTH, PANEL, STRIP, MARGIN, LEFT = 1000, 200, 10, 34, 60
PLOT = WIDTH - LEFT - 20
TOP_PPM = 1_500_000
"""A panel's height, as a share of the capacity."""
COLOURS = (
    "#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#994455", "#117733",
    "#ddaa33", "#004488", "#88ccaa", "#cc6677", "#6699cc", "#997700", "#aa4499", "#555555",
)  # fmt: skip


def picture(panels: Sequence[tuple[str, Mapping[str, Any]]], capacity_mdev: int, title: str) -> str:
    """The SVG of panels: each policy's name and its `figures.series`."""
    tenants = sorted({name for _, shown in panels for name in shown["held_mdev"]})
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(tenants)}
    step = PANEL + STRIP + MARGIN
    height = MARGIN + step * len(panels) + 24 + 18 * -(-len(tenants) // 8)
    buckets = max(_length(shown) for _, shown in panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="18" font-size="14">{escape(title)}</text>',
    ]
    for number, (name, shown) in enumerate(panels):
        top = MARGIN + number * step
        parts += _panel(name, shown, capacity_mdev, top, buckets, colours)
    parts += _legend(colours, MARGIN + step * len(panels) + 16)
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    name: str,
    shown: Mapping[str, Any],
    capacity: int,
    top: int,
    buckets: int,
    colours: Mapping[str, str],
) -> list[str]:
    bottom = top + PANEL
    base = [0] * buckets
    parts = [f'<text x="{LEFT + 4}" y="{top + 12}">{escape(name)}</text>']
    for tenant, colour in colours.items():
        if not any(shown["held_mdev"].get(tenant, ())):
            continue
        upper = [low + one for low, one in zip(base, _padded(shown, tenant, buckets), strict=True)]
        parts.append(_area(base, upper, capacity, bottom, colour, tenant))
        base = upper
    waiting = [sum(column) for column in zip(*(
        _padded(shown, tenant, buckets, "waiting_mdev") for tenant in colours
    ), strict=True)]  # fmt: skip
    upper = [low + one for low, one in zip(base, waiting, strict=True)]
    parts.insert(0, _area(base, upper, capacity, bottom, "#dddddd", "waiting"))
    line = bottom - PANEL * 1_000_000 // TOP_PPM
    parts += [
        f'<path d="M{LEFT} {line}H{LEFT + PLOT}" stroke="black" stroke-width="0.7"/>',
        f'<text x="{LEFT - 4}" y="{line + 4}" text-anchor="end">{capacity // 1000}</text>',
        f'<text x="{LEFT - 4}" y="{bottom}" text-anchor="end">0</text>',
        f'<path d="M{LEFT} {top}V{bottom}H{LEFT + PLOT}" fill="none" stroke="black"/>',
    ]
    parts += _strip(shown["fairness_ppm"], bottom + 2, buckets)
    return parts + _months(shown, bottom + STRIP + 14, buckets)


def _area(
    lower: Sequence[int],
    upper: Sequence[int],
    capacity: int,
    bottom: int,
    colour: str,
    title: str,
) -> str:
    """A band between two rows of amounts, as steps."""
    there = [_point(at, one, capacity, bottom, len(upper)) for at, one in enumerate(upper)]
    back = [_point(at, one, capacity, bottom, len(lower)) for at, one in enumerate(lower)]
    path = " ".join(there + back[::-1])
    return f'<path d="M{path}Z" fill="{colour}"><title>{escape(title)}</title></path>'


def _point(at: int, amount: int, capacity: int, bottom: int, buckets: int) -> str:
    tenths = min(PANEL * 10, amount * PANEL * 10 * 1_000_000 // (capacity * TOP_PPM))
    y = bottom * 10 - tenths
    x = LEFT * 10 + at * PLOT * 10 // max(1, buckets - 1)
    return f"{_tenths(x)} {_tenths(y)}"


def _tenths(tenths: int) -> str:
    """A number of tenths as a decimal, as short as it goes."""
    return f"{tenths // 10}.{tenths % 10}".removesuffix(".0")


def _strip(values: Sequence[int | None], top: int, buckets: int) -> list[str]:
    parts = []
    width = -(-PLOT * 10 // buckets)
    for at, value in enumerate(values):
        shade = "#eeeeee" if value is None else _shade(value)
        x = LEFT * 10 + at * PLOT * 10 // buckets
        parts.append(
            f'<rect x="{x // 10}.{x % 10}" y="{top}" width="{width // 10}.{width % 10}" '
            f'height="{STRIP}" fill="{shade}"/>'
        )
    return parts


def _shade(jain_ppm: int) -> str:
    """White at 1, dark red at a half and below."""
    lack = min(1_000_000, max(0, 2 * (1_000_000 - jain_ppm)))
    rest = 255 - 205 * lack // 1_000_000
    return f"#{255 - 115 * lack // 1_000_000:02x}{rest:02x}{rest:02x}"


def _months(shown: Mapping[str, Any], y: int, buckets: int) -> list[str]:
    """The first day of each month, and of the trace."""
    parts, last = [], ""
    for at in range(buckets):
        moment = datetime.fromtimestamp(
            (shown["begin_ms"] + at * shown["bucket_ms"]) // 1000, tz=UTC
        )
        month = moment.strftime("%Y-%m")
        if month != last:
            x = LEFT + at * PLOT // max(1, buckets - 1)
            parts.append(f'<text x="{x}" y="{y}">{moment.strftime("%Y-%m-%d")}</text>')
            last = month
    return parts


def _legend(colours: Mapping[str, str], y: int) -> list[str]:
    parts = []
    for at, (name, colour) in enumerate([*colours.items(), ("waiting", "#dddddd")]):
        x, row = LEFT + at % 8 * (PLOT // 8), y + at // 8 * 18
        parts.append(f'<rect x="{x}" y="{row - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="{row}">{escape(name[:14])}</text>')
    return parts


def _length(shown: Mapping[str, Any]) -> int:
    return max(len(row) for row in shown["held_mdev"].values())


def _padded(
    shown: Mapping[str, Any], tenant: str, buckets: int, key: str = "held_mdev"
) -> list[int]:
    row = list(shown[key].get(tenant, ()))
    return row + [0] * (buckets - len(row))
