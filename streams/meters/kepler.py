"""Kepler, and node_exporter's RAPL: joules of nodes by power zone, as Prometheus text.

What it can tell: where a node has RAPL, what its packages and memory took; where it has none, what
a model says. The text does not say which: ModelBased.

1. One level is booked: the node (the default), or its virtual machines, pods, containers or
   processes, which share the node's energy out by a model of Kepler's own. The others are nested.
2. Of a node's zones those are booked that are disjoint (`streams.meters.once`).
3. Idle and dynamic joules of a zone are disjoint, and each is a meter of its own; `active` and
   `idle` beside a zone's total lie inside it. Joules without a zone are the sum of the zones.
4. Zones of one name are told apart by their socket: a label, or the powercap path.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from streams.meters.answers import Silence, number
from streams.meters.codes import Code
from streams.meters.once import domain_fault, domain_scope
from streams.meters.options import Options
from streams.meters.prometheus import Scrape, Series, scrapes
from streams.meters.records import (
    Item,
    MeterError,
    Obtained,
    Origin,
    Quantity,
    Refusal,
    Sample,
    Scope,
)
from streams.meters.text import Source
from streams.meters.units import energy_unit

FORM = "kepler"
LEVELS = ("node", "vm", "pod", "container", "process")
_OLD = re.compile(r"kepler_(node|vm|pod|container|process)_([a-z]+)_joules_total")
_NEW = re.compile(r"kepler_(node|vm|pod|container|process)_cpu(_active|_idle)?_joules_total")
_SUM = re.compile(r"kepler_(node|vm|pod|container|process)_joules_total")
_NODE_EXPORTER = re.compile(r"node_rapl_([a-z][a-z0-9_]*)_joules_total")
_SOCKET = re.compile(r"-rapl(?:-mmio)?:(\d+)")
_MODES = ("", "idle", "dynamic")
_NODES = ("node", "node_name", "exported_instance", "instance", "hostname")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "vm": ("vm_id", "vm_name"),
    "pod": ("pod_id", "pod_namespace", "pod_name"),
    "container": ("container_id", "container_namespace", "pod_name", "container_name"),
    "process": ("pid", "command"),
}


def read(source: Source, options: Options) -> Iterator[Item]:
    """The samples of one or more scrapes. Raises MeterError for a level that there is not."""
    if options.level not in LEVELS:
        raise MeterError("level", f"{options.level!r} is none of {', '.join(LEVELS)}")
    for scrape in scrapes(source, options):
        if isinstance(scrape, Scrape):
            for series in scrape.series:
                yield from _samples(series, scrape, options)
        else:
            yield scrape


def _samples(series: Series, scrape: Scrape, options: Options) -> Iterator[Sample | Refusal]:
    found = _energy(series)
    if found is None:
        return
    device = _device(series, found.level, options)
    fault = _fault(found, options)
    if fault is not None:
        yield Refusal(
            code=fault[0], place=series.place, device=device, raw=series.value, detail=fault[1]
        )
        return
    answer = number(series.value)
    silent = isinstance(answer, Silence)
    one = energy_unit("J")
    assert one is not None
    yield Sample(
        place=series.place,
        device="/".join(word for word in (device, found.zone, found.mode) if word),
        origin=Origin(
            form=FORM,
            field=series.name,
            unit="J",
            scope=domain_scope(found.zone) if found.level == "node" else Scope.CONTAINER,
            identity="name",
            obtained=Obtained.MODEL,
        ),
        quantity=Quantity.COUNTER,
        raw=series.value,
        amount=None if isinstance(answer, Silence) else answer * one,
        silent=answer.code if isinstance(answer, Silence) else None,
        detail=answer.detail if isinstance(answer, Silence) else "",
        stamp_ms=scrape.at_ms if series.own_ms is None else series.own_ms,
        scrape=scrape.place,
        device_ms=None,
        instance="" if silent else series.labels.get("source", ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Energy:
    """What a metric is about: `inside`, that it is part of its zone's total."""

    level: str
    zone: str
    mode: str = ""
    inside: str = ""


def _energy(series: Series) -> _Energy | None:
    """What a metric's name and labels say; None: it is no energy."""
    labels = series.labels
    matched = _NEW.fullmatch(series.name)
    if matched is not None:
        zone, socket = labels.get("zone", "package"), _SOCKET.search(labels.get("path", ""))
        return _Energy(
            level=matched[1],
            zone=_numbered(zone, socket[1] if socket else ""),
            inside=(matched[2] or "").strip("_"),
        )
    matched = _SUM.fullmatch(series.name)
    if matched is not None:
        return _Energy(level=matched[1], zone="", mode=labels.get("mode", ""))
    matched = _NODE_EXPORTER.fullmatch(series.name)
    if matched is not None:
        return _Energy(level="node", zone=_numbered(matched[1], labels.get("index", "")))
    matched = _OLD.fullmatch(series.name)
    if matched is None:
        return None
    zone = _numbered(matched[2], labels.get("package") or labels.get("index", ""))
    return _Energy(level=matched[1], zone=zone, mode=labels.get("mode", ""))


def _numbered(zone: str, socket: str) -> str:
    return f"{zone}-{socket}" if socket.isdigit() else zone


def _fault(found: _Energy, options: Options) -> tuple[Code, str] | None:
    """Why it is not booked beside the others (rules 1 to 3)."""
    if found.level != options.level:
        return Code.NESTED, f"the level {options.level} is booked"
    if found.inside:
        return Code.NESTED, f"{found.inside} joules lie inside the zone's total"
    if not found.zone:
        return Code.NESTED, "the sum of its zones"
    if found.mode not in _MODES:
        return Code.NESTED, f"nobody knows whether {found.mode} joules lie inside others"
    return domain_fault(found.zone, options.domains)


def _device(series: Series, level: str, options: Options) -> str:
    labels = series.labels
    node = next((labels[one] for one in _NODES if labels.get(one)), options.host or "node")
    inside = "/".join(labels[one] for one in _NAMES.get(level, ()) if labels.get(one))
    return f"{node}/{inside}" if inside else node
