"""What is seen several times counts once, and levels that contain each other are not summed.

Rule 8 of `streams.meters.rules`; the samples of one scrape, or of one instant, go through here.

1. Samples of the same device, quantity and window are instances of one physical total: what a
   board says through each of its partitions, pods or dies. Instances that answer must agree (within
   a moment's energy, or a fifth of the power); then the largest counts, which is the latest of a
   counter, and the others are refused by name. If they do not agree, nobody is believed.
2. Several samples of one instance at one instant are repeats: `rules` keeps the first valid one.
3. A figure about several physical things needs all of them to be free in its window.
4. Which domains and levels are booked is a closed table: what contains another, or lies inside
   one, is never booked beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from streams.meters.codes import Code
from streams.meters.judging import instances_agree, limit_of
from streams.meters.records import Quantity, Refusal, Sample, Scope

Key = tuple[str, Quantity, int | None, int | None]

DOMAINS: Mapping[str, Scope | None] = {
    "package": Scope.PACKAGE,
    "pkg": Scope.PACKAGE,
    "dram": Scope.DRAM,
    "ram": Scope.DRAM,
    "gpu": Scope.BOARD,
    "accelerator": Scope.BOARD,
    "psys": Scope.HOST,
    "platform": Scope.HOST,
    "core": None,
    "cores": None,
    "pp0": None,
    "uncore": None,
    "pp1": None,
    "gfx": None,
    "igpu": None,
    "other": None,
}
"""The scope of a power domain by the first word of its name; None: it lies inside another."""
SURROUNDING = frozenset({"psys", "platform"})
"""These contain packages and memory: booked only where they are asked for, alone."""


def count_once(samples: Sequence[Sample]) -> tuple[list[Sample], list[Refusal]]:
    """The samples of one instant: powers before counters, one instance of each total."""
    groups: dict[Key, list[Sample]] = {}
    for sample in samples:
        key = (sample.device, sample.quantity, sample.from_ms, sample.stamp_ms)
        groups.setdefault(key, []).append(sample)
    kept: list[Sample] = []
    refused: list[Refusal] = []
    for group in groups.values():
        if len({sample.instance for sample in group}) > 1:
            group, same = _one_of(group)
            refused += same
        kept += group
    kept.sort(key=lambda sample: sample.quantity is not Quantity.POWER)
    return kept, refused


def _one_of(group: Sequence[Sample]) -> tuple[list[Sample], list[Refusal]]:
    answered = [sample for sample in group if sample.amount is not None]
    if not answered:
        return [group[0]], [_same(sample, group[0]) for sample in group[1:]]
    amounts = [sample.amount - (sample.start or 0) for sample in answered if sample.amount]
    chosen = answered[amounts.index(max(amounts))]
    others = [sample for sample in group if sample is not chosen]
    if not instances_agree(amounts, chosen.quantity, limit_of(chosen)):
        detail = ", ".join(f"{one.instance or 'none'}: {one.raw}" for one in answered)[:200]
        silent = replace(chosen, amount=None, silent=Code.INSTANCES_DISAGREE, detail=detail)
        return [silent], [_refused(one, Code.INSTANCES_DISAGREE, detail) for one in others]
    shared = tuple(occupant for sample in group for occupant in sample.occupants)
    return [replace(chosen, occupants=shared)], [_same(sample, chosen) for sample in others]


def _same(sample: Sample, chosen: Sample) -> Refusal:
    """An instance that is not counted; one that gave no answer is refused for that."""
    if sample.silent is not None:
        return _refused(sample, sample.silent, sample.detail)
    return _refused(sample, Code.SAME_TOTAL, f"counted as {chosen.instance or 'the device'}")


def _refused(sample: Sample, code: Code, detail: str) -> Refusal:
    return Refusal(
        code=code, place=sample.place, device=sample.device, raw=sample.raw, detail=detail
    )


class Occupied:
    """Until when each physical part is taken by a figure about several of them (rule 3)."""

    def __init__(self) -> None:
        self._until: dict[str, int] = {}

    def refusal(self, sample: Sample) -> Refusal | None:
        """Take the sample's window on all of its parts, or say which one is taken."""
        from_ms, to_ms = sample.from_ms, sample.stamp_ms
        if not sample.parts or from_ms is None or to_ms is None:
            return None
        for part in sample.parts:
            if from_ms < self._until.get(part, from_ms):
                return _refused(sample, Code.OVERLAPS, f"{part} is in another's window")
        self._until.update(dict.fromkeys(sample.parts, to_ms))
        return None


def domain_of(name: str) -> str:
    """A domain's first word: `PACKAGE0`, `package-0` and perf's `power/energy-pkg/`."""
    word = name.strip().lower().removeprefix("power/").removeprefix("energy-")
    letters = word[: next((at for at, one in enumerate(word) if not one.isalpha()), len(word))]
    return "pp" + word[2:3] if letters == "pp" else letters


def domain_fault(name: str, asked: Iterable[str]) -> tuple[Code, str] | None:
    """Why a domain is not booked; `asked` are surrounding domains that are to be booked alone."""
    domain = domain_of(name)
    alone = set(asked)
    if alone:
        inside = domain not in alone
        return (Code.NESTED, f"only {', '.join(sorted(alone))} is booked") if inside else None
    if domain in SURROUNDING:
        return Code.NESTED, f"{name} contains packages and memory"
    if domain not in DOMAINS:
        return Code.NESTED, f"{name}: nobody knows whether it lies inside another"
    if DOMAINS[domain] is None:
        return Code.NESTED, f"{name} lies inside another domain"
    return None


def domain_scope(name: str) -> Scope:
    """The scope of a domain that is booked."""
    return DOMAINS.get(domain_of(name)) or Scope.HOST
