"""Mapping files and occupants files: what they say, and what of them is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.records import Occupant
from streams import meters
from streams.meters import MeterError, parse_occupants
from streams.meters.mapfile import parse_mapping
from streams.meters.records import Quantity
from tests.meters.support import MAPS

METER = '[[meter]]\ncolumn = "e"\nunit = "J"\n'


@pytest.mark.parametrize("path", sorted(MAPS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_mappings_of_the_raw_files_are_mappings(path: object) -> None:
    """Each of them is read whole."""
    assert parse_mapping(MAPS.joinpath(str(path)).read_text(), "m").fields


def test_the_readmes_files_are_what_it_says() -> None:
    """Its mapping maps, its occupants occupy."""
    text = (Path(meters.__file__).parent / "README.md").read_text()
    mapping, occupants = [part.split("```")[0] for part in text.split("```toml\n")[1:]]
    (field,) = parse_mapping(mapping, "readme").fields
    assert (field.value.columns, field.value.unit) == (("new", "old"), "15625/1024 uJ")
    occupancy = parse_occupants(occupants, "readme")
    assert occupancy.of("GPU-6bf47ca9", 1715877012530, 1715877012531)[0].claim == "train-1"


def test_a_mapping_says_everything_once() -> None:
    """A window's beginning and end, a rational unit, a limit, a floor, a shared meter."""
    text = """
        form = "site"
        device = ["serial", "slot"]
        identity = "serial"
        stamp = ["date", "time"]
        where = { state = ["ok", "busy"] }
        limit = "cap [W]"
        [window]
        since = ["begin"]
        [meters]
        "0" = "card"
        [clock]
        zone_minutes = 60
        [[meter]]
        kind = "energy"
        column = ["e", "old_e"]
        unit = "15625/1024 uJ"
        limit = "2.5 kW"
        range = "65536 J"
        when = { kind = "x" }
    """
    mapping = parse_mapping(text, "site.toml")
    (field,) = mapping.fields
    assert mapping.where == {"state": ("ok", "busy")} and mapping.meters == {"0": "card"}
    assert [one.column for one in mapping.devices] == ["serial", "slot"]
    assert (mapping.stamp, mapping.since, mapping.zone_min) == (("date", "time"), ("begin",), 60)
    assert field.quantity is Quantity.FIGURE and field.value.columns == ("e", "old_e")
    assert (field.limit_uw, field.range_uj) == (2_500_000_000, 65_536_000_000)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("form = 1\n" + METER, "form"),
        ("", "meter"),
        ("[[meter]]\nunit = 'J'\n", "column"),
        ("[[meter]]\ncolumn = 'e'\nunit = 'W'\n", "unit"),
        ("[[meter]]\ncolumn = 'e'\nunit = 'ergs'\n", "unit"),
        ("[[meter]]\ncolumn = 'e'\nkind = 'colour'\n", "kind"),
        (METER + "scope = 'galaxy'\n", "scope"),
        (METER + "limit = '5'\n", "limit"),
        (METER + "limit = '-5 W'\n", "limit"),
        (METER + "start = 's'\n", "start"),
        (METER + "colour = 'red'\n", "colour"),
        ("colour = 'red'\n" + METER, "colour"),
        ("container = 'xml'\n" + METER, "container"),
        ("device_stamp = 't'\n" + METER, "device_stamp_unit"),
        ("stamp_unit = 'J'\n" + METER, "stamp_unit"),
        (METER + "[clock]\nstart = 'noon'\n", "start"),
        (METER + "[clock]\nevery = '0.5 ms'\n", "every"),
        ("not toml", "not TOML"),
    ],
)
def test_a_mapping_that_is_not_understood_maps_nothing(text: str, key: str) -> None:
    """The error names the key."""
    with pytest.raises(MeterError, match=key):
        parse_mapping(text, "m.toml")


OCCUPANT = '[[occupant]]\ndevice = "d"\nclaim = "c"\n'


def test_occupants_by_name_by_beginning_and_by_time() -> None:
    """An exact name goes before a beginning; an entry ends where its `to` is."""
    text = OCCUPANT + 'mdev = 250\nto = "2024-08-06T15:00:00Z"\n'
    text += '[[occupant]]\ndevice = "n7/*"\nclaim = "e"\n[claims]\n"4242" = "train"\n'
    occupancy = parse_occupants(text, "o.toml")
    assert occupancy.of("d", 0, 10) == (Occupant(claim="c", mdev=250),)
    assert occupancy.of("d", 1_722_956_400_000, 1_722_956_400_001) == ()
    assert occupancy.of("n7/gpu-0", 0, 1) == (Occupant(claim="e", mdev=1000),)
    assert occupancy.of("n8/gpu-0", 0, 1) == ()
    assert occupancy.named([Occupant(claim="4242", mdev=1)]) == (Occupant(claim="train", mdev=1),)
    assert occupancy.cuts("d", 1_722_956_399_000, 1_722_956_401_000) == [1_722_956_400_000]


def test_occupants_may_be_json() -> None:
    """By the file's name."""
    text = '{"occupant": [{"device": "d", "claim": "c", "mdev": 5, "from": 1722956400}]}'
    assert parse_occupants(text, "o.json").of("d", 0, 2**50) == (Occupant(claim="c", mdev=5),)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("colour = 1\n", "occupant"),
        ("occupant = 1\n", "list"),
        ("occupant = [1]\n", "table"),
        ("[[occupant]]\nclaim = 'c'\n", "device"),
        ("[[occupant]]\ndevice = 'd'\n", "claim"),
        (OCCUPANT + "mdev = 0\n", "mdev"),
        (OCCUPANT + "mdev = 1.5\n", "mdev"),
        (OCCUPANT + "from = 'noon'\n", "from"),
        (OCCUPANT + "colour = 1\n", "colour"),
        ("[claims]\na = 1\n", "claims"),
        ("nonsense", "TOML"),
    ],
)
def test_an_occupants_file_with_a_fault_is_refused(text: str, key: str) -> None:
    """The error names the entry and the key."""
    with pytest.raises(MeterError, match=key):
        parse_occupants(text, "o.toml")
