"""Whatever a source prints: no negative, no float, no overlap, nothing above the limit.

Two generators: streams of samples, as an adapter may yield them, and texts, as anything may be.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterable
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import parse_event
from schemas.records import Event, Malformed
from streams.meters import (
    FORMATS,
    Code,
    MeterError,
    Meters,
    Options,
    Tuning,
    event_of,
    read,
)
from streams.meters.judging import TOLERANCE, allowed_uj
from streams.meters.mapfile import parse_mapping
from streams.meters.records import (
    Break,
    Finding,
    Item,
    Obtained,
    Origin,
    Quantity,
    Refusal,
    Sample,
    Scope,
)
from tests.meters.support import MAPS, raw

START = 1_722_956_400_000
LIMIT_UW = Fraction(700_000_000)
ORIGIN = Origin(
    form="any", field="f", unit="u", scope=Scope.BOARD, identity="uuid", obtained=Obtained.COUNTER
)
STEPS_MS = (1000, 1000, 1000, 1000, 5000, 20_000, 400_000, 10, 1, 0, -1, -3000)
SILENCES = (None, None, None, None, Code.NO_ANSWER, Code.SENTINEL, Code.ZERO)
KINDS = (*[Quantity.COUNTER] * 6, *[Quantity.POWER] * 3, Quantity.FIGURE)
EVENTS = ("", "", "", "", "", "", "", "", "", "reset", "reboot", "jump", "break", "wrap")
MOVES = st.lists(
    st.tuples(
        st.sampled_from(STEPS_MS),
        st.integers(0, 900),
        st.sampled_from(EVENTS),
        st.sampled_from(KINDS),
        st.sampled_from(SILENCES),
        st.sampled_from([("", None, 0), ("", Fraction(2**33), 1000), ("2", None, 60_000)]),
    ),
    min_size=2,
    max_size=20,
)
"""Milliseconds, watts, what happens, what is read, its silence, (instance, range, a window)."""
Move = tuple[int, int, str, Quantity, Code | None, tuple[str, Fraction | None, int]]


def items_of(moves: list[Move]) -> list[Item]:
    """A board's samples in sequence: it counts, resets, jumps, wraps, falls silent, goes back."""
    count, stamp_ms, boot, made = Fraction(10**6), START, 0, list[Item]()
    for step_ms, watts, event, quantity, silent, rest in moves:
        stamp_ms += step_ms
        count += Fraction(watts * 10**6 * max(0, step_ms), 1024)
        if event in ("reset", "reboot"):
            count, boot = Fraction(watts + 1), boot + (event == "reboot")
        elif event == "jump":
            count += 10**9 * 2 ** (watts // 40)
        elif event == "break":
            made.append(Break(place="x"))
        elif event == "wrap":
            count = count % 2**33 or Fraction(1)
        made.append(sample(count, stamp_ms, str(boot), watts, quantity, silent, rest))
    return made


def sample(
    count: Fraction,
    stamp_ms: int,
    boot: str,
    watts: int,
    quantity: Quantity,
    silent: Code | None,
    rest: tuple[str, Fraction | None, int],
) -> Sample:
    """A sample of the board at that instant: its counter, its power, a figure, or silence."""
    instance, range_uj, lasts_ms = rest
    amount = {
        Quantity.COUNTER: count,
        Quantity.POWER: Fraction(watts * 10**6 + 1, 7),
        Quantity.FIGURE: Fraction(watts * 1000 * lasts_ms + 1),
    }[quantity]
    return Sample(
        place="x:1",
        device="d",
        origin=ORIGIN,
        quantity=quantity,
        raw="r",
        amount=None if silent else amount,
        silent=silent,
        stamp_ms=stamp_ms,
        from_ms=stamp_ms - lasts_ms if quantity is Quantity.FIGURE else None,
        range_uj=range_uj if quantity is Quantity.COUNTER else None,
        boot=boot,
        limit_uw=LIMIT_UW,
        instance=instance,
    )


def check(findings: Iterable[Finding], limit_uw: Fraction | None = None) -> None:
    """The invariants of `streams.meters.rules`, and that every event is one."""
    ends: dict[str, int] = {}
    for one in findings:
        if isinstance(one, Refusal):
            assert one.at_least_uj is None or type(one.at_least_uj) is int
            continue
        assert one.from_ms < one.to_ms
        assert ends.get(one.device, 0) <= one.from_ms
        ends[one.device] = one.to_ms
        assert (one.uj is None) == (one.grade is None) == (one.code is not None)
        if one.uj is not None:
            assert type(one.uj) is int and one.uj >= 0
            if limit_uw is not None:
                assert one.uj <= -(-allowed_uj(limit_uw, one.to_ms - one.from_ms) // 1)
        parsed = parse_event(event_of(one, "p"), from_json=False)
        assert isinstance(parsed, Event) and not isinstance(parsed, Malformed)
        assert parsed.in_range


@settings(max_examples=200, deadline=None)
@given(MOVES, st.sampled_from([0, 3000, 10_000]), st.sampled_from([0, 60_000]))
def test_no_reading_is_impossible(moves: list[Move], fill_ms: int, window_ms: int) -> None:
    """Any samples, any holes filled or not, joined or not."""
    items = items_of(moves)
    meters = Meters(Tuning(fill_ms=fill_ms), window_ms=window_ms)
    check([*meters.take(items), *meters.rest()], LIMIT_UW)


@settings(max_examples=100, deadline=None)
@given(MOVES)
def test_what_is_read_in_parts_is_what_is_read_at_once(moves: list[Move]) -> None:
    """Scrape by scrape or as one recording: the same findings, in the same order."""
    items = items_of(moves)
    whole, parts = Meters(Tuning()), Meters(Tuning())
    at_once = [*whole.take(items), *whole.rest()]
    stamped: list[list[Item]] = []
    for item in items:
        instant = item.stamp_ms if isinstance(item, Sample) else None
        before = stamped[-1][-1] if stamped else None
        if isinstance(before, Sample) and instant is not None and before.stamp_ms == instant:
            stamped[-1].append(item)
        else:
            stamped.append([item])
    piecewise = [finding for batch in stamped for finding in parts.take(batch)]
    assert [*piecewise, *parts.rest()] == at_once


NUMBERS = ["1", "-1", "0", "71.5 W", "71.5", "[N/A]", "18446744073709551614", "9.2e14", "1e400",
           "", "nan", "0x1", "1,5", "126272101025", "4750896266"]  # fmt: skip
FILES = {
    "01": "amdsmi", "04": "amdsmi", "07": "dcgm", "13": "kepler", "14": "rapl", "22": "nvidia-smi",
    "24": "pyjoules", "28": "wall", "29": "nvidia-smi", "30": "nvidia-smi",
}  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 3500), st.sampled_from(NUMBERS)), max_size=6),
    st.integers(0, 4000),
)
def test_a_damaged_raw_file_yields_nothing_impossible(
    number: str, changes: list[tuple[int, str]], cut: int
) -> None:
    """Cells overwritten, the file cut anywhere: still within the invariants."""
    text = raw(number)
    for at, cell in changes:
        at = min(at, len(text))
        text = text[:at] + cell + text[at + len(cell) :]
    check_text(text[:cut].encode(), FILES[number])


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(FORMATS)), st.binary(max_size=300), st.sampled_from(["01", "07", "28"])
)
def test_any_bytes_are_findings_or_a_meter_error(form: str, data: bytes, number: str) -> None:
    """No adapter fails otherwise, whatever it is given."""
    check_text(data, form)
    check_text(raw(number).encode() + data, form)


def check_text(data: bytes, form: str) -> None:
    mapping = parse_mapping((MAPS / "27.toml").read_text(), "27")
    options = Options(start_ms=START, every_ms=1000, level="container", mapping=mapping)
    findings: list[Finding] = []
    with contextlib.suppress(MeterError):
        findings.extend(read(io.BytesIO(data), "fuzz", form=form, options=options))
    check(findings)


def test_the_tolerance_is_five_percent() -> None:
    """The bound of the properties above is the issue's: limit x time x 1.05."""
    assert Fraction(105, 100) == TOLERANCE
