"""Events with something wrong: their form, a number, the way a number is written."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

from .shapes import STEWARD, Event

BAD_STEWARDS = ["", "did:key:z6Mk", STEWARD[:-1], STEWARD[:-1] + "a", STEWARD.upper(), "did:key:"]
BAD_VALUES: list[Any] = [None, True, 1.5, "01", "-1", "+1", " 1", "1.0", [], {}, [1], {"a": 1}]
BIG_NUMBERS: list[Any] = [-1, 2**63, str(2**63), 10**30, str(10**25), -(2**63)]
UNKNOWN_FIELDS = ["zz", "Claim", "aa", "seq", "é", "priorities", "at"]


def places(value: Any, found: list[tuple[Any, Any]] | None = None) -> list[tuple[Any, Any]]:
    """Every (container, key) below `value` that holds something other than a container."""
    found = [] if found is None else found
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if isinstance(item, (dict, list)):
            places(item, found)
        else:
            found.append((value, key))
    return found


def numbers(event: Event) -> list[tuple[Any, Any]]:
    return [
        (holder, key)
        for holder, key in places({k: v for k, v in event.items() if k not in ("at_ms", "meta")})
        if isinstance(holder[key], int) and not isinstance(holder[key], bool)
    ]


def as_strings(rng: Random, event: Event) -> Event:
    """The same event with some of its integers written as decimal strings."""
    event = copy.deepcopy(event)
    for name, value in event.items():
        if name in ("at_ms", "meta"):
            continue
        if isinstance(value, (dict, list)):
            for holder, key in numbers({name: value}):
                if holder[key] >= 0 and rng.random() < 0.5:
                    holder[key] = str(holder[key])
        elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            event[name] = str(value)
    return event


def spoilt(rng: Random, event: Event) -> Any:
    """A plausible event with something wrong about its form."""
    event = copy.deepcopy(event)
    fields = [name for name in event if name not in ("at_ms", "meta", "pool", "type")]
    if event.get("type") == "steward.rotate" and rng.random() < 0.5:
        event["steward"] = rng.choice(BAD_STEWARDS)
        return event
    if event.get("type") == "claim.submitted" and rng.random() < 0.15:
        spoil_estimate(rng, event)
        return event
    match rng.randint(0, 9):
        case 0 | 1 if fields:
            del event[rng.choice(fields)]
        case 2 | 3 | 4 if fields:
            event[rng.choice(fields)] = copy.deepcopy(rng.choice(BAD_VALUES))
        case 5:
            for name in rng.sample(UNKNOWN_FIELDS, rng.randint(1, 2)):
                event[name] = 1
        case 6 | 7:
            spoil_inside(rng, event)
        case 8:
            spoil_head(rng, event)
        case _:
            event["id"] = rng.choice([1, None, [], {}])
    return event


def spoil_inside(rng: Random, event: Event) -> None:
    """Something wrong below the top level."""
    holders = [one for name in event if name != "meta" for one in containers(event[name]) if one]
    if not holders:
        event["priority"] = 1.0
        return
    holder = rng.choice(holders)
    key = rng.choice(list(holder)) if isinstance(holder, dict) else rng.randrange(len(holder))
    match rng.randint(0, 2):
        case 0:
            del holder[key]
        case 1:
            holder[key] = copy.deepcopy(rng.choice(BAD_VALUES))
        case _ if isinstance(holder, dict):
            holder[rng.choice(["gpu.mig", "uw", "weigth", "uj"])] = 1
        case _:
            holder.append(copy.deepcopy(rng.choice(BAD_VALUES)))


def containers(value: Any) -> list[Any]:
    if not isinstance(value, (dict, list)):
        return []
    inner = list(value.values()) if isinstance(value, dict) else value
    return [value, *(one for item in inner for one in containers(item))]


def spoil_estimate(rng: Random, event: Event) -> None:
    """Grade, energy and the wish for an observed estimate in combinations that may not be."""
    event["estimate"] = rng.choice(["observed", "observed", "foo", "", None, True])
    if rng.random() < 0.5:
        event.pop("grade", None)
    if rng.random() < 0.5:
        event["gang"] = [{"mdev": 1}]
    if rng.random() < 0.2:
        event["grade"] = rng.choice([None, "Guess", 1])


def spoil_head(rng: Random, event: Event) -> None:
    match rng.randint(0, 4):
        case 0:
            event["type"] = rng.choice(["claim.submit", "", None, 3, [], "pool.closed"])
        case 1:
            del event["type"]
        case 2:
            del event["pool"]
        case 3:
            event["pool"] = rng.choice([None, 3, [], {}])
        case _:
            event["pool"] = "nowhere"


def outside(rng: Random, event: Event) -> Event:
    """A plausible event with a number out of its range."""
    event = copy.deepcopy(event)
    found = numbers(event)
    if event.get("type") == "claim.submitted" and rng.random() < 0.4:
        if rng.random() < 0.5:
            event["priority"] = rng.choice([1001, -1001, "1001"])
        else:
            event["gang"] = [{"mdev": 2**62}, {"mdev": str(2**62)}]
    elif event.get("type") == "meter.read" and rng.random() < 0.2:
        event["to_ms"] = 253_402_300_800_000
    elif found:
        # The copy that `numbers` made at the top level is shallow: set top-level fields by name.
        holder, key = rng.choice(found)
        value = rng.choice(BIG_NUMBERS)
        if key in event and event[key] is holder[key]:
            event[key] = value
        else:
            holder[key] = value
    return event
