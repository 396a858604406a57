"""DCGM exporter: a board's energy counter in mJ, its power in W, as Prometheus text.

What it can tell: a board's energy since its driver was loaded: HwShunt. Where a board has no
counter, its power is integrated: ModelBased.

1. The board is known by its UUID; a series without it, or with a partition's, is the board's that
   the same scrape shows under its index. Partitions, pods and time-sliced clients repeat the
   board's total: they are instances of it, and it counts once.
2. A `GH200` counts its whole module, whatever the field is called: its scope is the module.
3. Metrics that are neither energy nor power of a board are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from streams.meters.answers import Silence, number
from streams.meters.codes import Code
from streams.meters.options import Options
from streams.meters.prometheus import Scrape, Series, scrapes
from streams.meters.records import Item, Obtained, Origin, Quantity, Refusal, Sample, Scope
from streams.meters.text import Source
from streams.meters.units import energy_unit, power_unit

FORM = "dcgm"
COUNTERS = ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "dcgm_total_energy_consumption")
POWERS = ("DCGM_FI_DEV_POWER_USAGE", "dcgm_power_usage")
LIMITS = (
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    "dcgm_enforced_power_limit",
)
BOARD = "GPU-"
_HOSTS = ("Hostname", "hostname", "node")
WHOLE_MODULE = "GH200"
_INSTANCE = ("GPU_I_ID", "GPU_I_PROFILE", "vgpu", "namespace", "exported_namespace", "pod",
             "exported_pod", "container", "exported_container")  # fmt: skip


def read(source: Source, options: Options) -> Iterator[Item]:
    """The samples of one or more scrapes."""
    for scrape in scrapes(source, options):
        if isinstance(scrape, Scrape):
            boards = _boards(scrape, options)
            limits = _limits(scrape, boards, options)
            for series in scrape.series:
                if series.name in COUNTERS or series.name in POWERS:
                    named = _device(series, boards, options)
                    yield _sample(series, scrape, named, limits)
        else:
            yield scrape


def _uuid(series: Series) -> str:
    return series.labels.get("UUID") or series.labels.get("uuid") or ""


def _slot(series: Series, options: Options) -> str:
    """The board's index on its host; empty: it has none."""
    labels = series.labels
    index = labels.get("gpu") or labels.get("device") or ""
    said = next((labels[one] for one in _HOSTS if labels.get(one)), "")
    host = said or options.host or labels.get("instance", "")
    return (f"{host}/gpu-{index}" if host else f"gpu-{index}") if index else ""


def _boards(scrape: Scrape, options: Options) -> Mapping[str, str]:
    """The UUIDs of a scrape's boards by their slots."""
    return {
        _slot(series, options): _uuid(series)
        for series in scrape.series
        if _uuid(series).startswith(BOARD)
    }


def _device(series: Series, boards: Mapping[str, str], options: Options) -> tuple[str, str] | None:
    """The board's name and what kind of name it is; None: only a partition is named."""
    slot = _slot(series, options)
    uuid = _uuid(series) if _uuid(series).startswith(BOARD) else boards.get(slot, "")
    if uuid:
        return uuid, "uuid"
    return (slot, "index") if slot else None


def _limits(scrape: Scrape, boards: Mapping[str, str], options: Options) -> Mapping[str, Fraction]:
    """Each board's power limit in uW, where the scrape has one."""
    found: dict[str, Fraction] = {}
    for series in scrape.series:
        named = _device(series, boards, options)
        if series.name in LIMITS and named is not None:
            watts = number(series.value, power=True)
            if not isinstance(watts, Silence):
                found.setdefault(named[0], watts * (power_unit("W") or 0))
    return found


def _sample(
    series: Series, scrape: Scrape, named: tuple[str, str] | None, limits: Mapping[str, Fraction]
) -> Sample | Refusal:
    if named is None:
        uuid = _uuid(series)
        code = Code.NOT_PHYSICAL if uuid else Code.NO_DEVICE
        return Refusal(code=code, place=series.place, raw=series.value, detail=uuid)
    counter = series.name in COUNTERS
    whole = counter and WHOLE_MODULE in series.labels.get("modelName", "")
    unit = "mJ" if counter else "W"
    one = energy_unit(unit) if counter else power_unit(unit)
    answer = number(series.value, power=not counter)
    silent = isinstance(answer, Silence)
    assert one is not None
    return Sample(
        place=series.place,
        device=named[0],
        origin=Origin(
            form=FORM,
            field=series.name,
            unit=unit,
            scope=Scope.MODULE if whole else Scope.BOARD,
            identity=named[1],
            obtained=Obtained.COUNTER if counter else Obtained.VENDOR_POWER,
        ),
        quantity=Quantity.COUNTER if counter else Quantity.POWER,
        raw=series.value,
        amount=None if isinstance(answer, Silence) else answer * one,
        silent=answer.code if isinstance(answer, Silence) else None,
        detail=answer.detail if isinstance(answer, Silence) else "",
        stamp_ms=scrape.at_ms if series.own_ms is None else series.own_ms,
        scrape=scrape.place,
        device_ms=None if series.own_ms is None or silent else Fraction(series.own_ms),
        limit_uw=None if whole else limits.get(named[0]),
        instance=_instance(series),
    )


def _instance(series: Series) -> str:
    """Through what the board is seen: a partition, a pod; the board itself is an empty text."""
    partition = "" if _uuid(series).startswith(BOARD) else _uuid(series)
    labels = [series.labels.get(label, "") for label in _INSTANCE]
    return "/".join([*labels, partition]).strip("/")
