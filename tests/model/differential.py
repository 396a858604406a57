"""Holds another implementation of `pool/1` against the model, decision by decision.

    python -m tests.model.differential --seeds 0:200 --length 120 --profile general

Not handled here: the sequences (`generate.py`) and how they are made small (`shrink.py`).  The
other implementation is a callable from events to the decisions of each; by default the kernel in
this process, with `--command` a command like `pool decide`, run once a sequence.

At the first difference: seed, event number, the event, both answers, and the smallest sequence
found that shows one.  Exit code 0 when all agree, 1 at a difference, 2 at wrong use.
"""

from __future__ import annotations

import argparse
import copy
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from .generate import PROFILES, run
from .pool_model import Model
from .shrink import shrink
from .sieges import SIEGES

Event = dict[str, Any]
Decisions = list[dict[str, Any]]
Implementation = Callable[[list[Event]], list[Decisions]]
JSON_INTEGER_END = 2**53


def kernel_decisions(events: list[Event]) -> list[Decisions]:
    """The kernel's decisions, event by event, in this process."""
    from streams.decide import decide_lines

    return collected(decide_lines, events)


def collected(
    decide: Callable[[Iterable[Event]], Iterator[tuple[int, dict[str, Any]]]], events: list[Event]
) -> list[Decisions]:
    """Decisions sorted by event; an exception is what answers the event that it came of."""
    answers: list[Decisions] = [[] for _ in events]
    reached = 0

    def counted() -> Iterator[Event]:
        nonlocal reached
        for number, event in enumerate(copy.deepcopy(events)):
            reached = number
            yield event

    try:
        for number, decision in decide(counted()):
            answers[number].append(decision)
    except Exception as fault:
        answers[reached].append({"kind": "exception", "error": repr(fault)})
    return answers


def command_decisions(command: list[str], events: list[Event]) -> list[Decisions]:
    """The decisions that `command FILE` prints, one JSON object a line with the event's number."""
    answers: list[Decisions] = [[] for _ in events]
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
        file.flush()
        done = subprocess.run([*command, file.name], capture_output=True, text=True, check=False)
    for line in done.stdout.splitlines():
        decision = json.loads(line)
        answers[decision.pop("event")].append(decision)
    if done.returncode != 0 and events:
        answers[-1].append({"kind": "exit", "code": done.returncode, "stderr": done.stderr[-500:]})
    return answers


def model_decisions(events: list[Event]) -> list[Decisions]:
    model = Model()

    def decide(given: Iterable[Event]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, event in enumerate(given):
            for decision in model.feed(event):
                yield number, decision

    return collected(decide, events)


def comparable(decisions: Decisions) -> str:
    """Decisions as one text: without the event itself, large integers as JSON writes them."""
    return json.dumps([plain(one) for one in decisions], sort_keys=True)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items() if key != "event"}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and value >= JSON_INTEGER_END:
        return str(value)
    return value


@dataclass(frozen=True, kw_only=True)
class Difference:
    """The first event whose answers differ."""

    number: int
    event: Event
    model: Decisions
    other: Decisions


def first_difference(
    events: list[Event], other: Implementation, ours: list[Decisions] | None = None
) -> Difference | None:
    """Feed `events` to `other` and, unless its answers are given, to the model."""
    theirs = other(events)
    ours = model_decisions(events) if ours is None else ours
    for number, event in enumerate(events):
        if comparable(ours[number]) != comparable(theirs[number]):
            return Difference(number=number, event=event, model=ours[number], other=theirs[number])
    return None


def shrunk(events: list[Event], other: Implementation, seconds: float) -> list[Event]:
    def where(candidate: list[Event]) -> int | None:
        found = first_difference(candidate, other)
        return None if found is None else found.number

    return shrink(events, where, seconds)


def show(title: str, found: Difference) -> None:
    print(f"{title}: event {found.number}")
    print("  event:", json.dumps(found.event, ensure_ascii=False))
    for name, decisions in (("model", found.model), ("other", found.other)):
        for decision in decisions or [{}]:
            line = {key: value for key, value in decision.items() if key != "event"}
            print(f"  {name}:", json.dumps(line, ensure_ascii=False))


def report(seed: int, profile: str, events: list[Event], other: Implementation, args: Any) -> None:
    """Say what differs, and the smallest sequence that shows it."""
    found = first_difference(events, other)
    assert found is not None
    show(f"profile {profile}, seed {seed}", found)
    if args.shrink_seconds <= 0:
        return
    small = shrunk(events, other, args.shrink_seconds)
    print(f"smallest sequence found ({len(small)} events):")
    for event in small:
        print(json.dumps(event, ensure_ascii=False))
    last = first_difference(small, other)
    assert last is not None
    show("there", last)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(event) + "\n" for event in small)


def compare(profile: str, seeds: range, other: Implementation, args: Any) -> int:
    """How many of the seeds differ; at most `args.failures` are reported."""
    started = time.monotonic()
    failures = 0
    for seed in seeds:
        maker = run(seed, args.length, profile)
        if first_difference(maker.events, other, maker.answers) is not None:
            failures += 1
            report(seed, profile, maker.events, other, args)
            if failures >= args.failures:
                break
    seconds = time.monotonic() - started
    print(f"{profile}: seeds {seeds.start}:{seeds.stop}, {failures} differ, {seconds:.1f} s")
    return failures


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.model.differential")
    parser.add_argument("--seeds", default="0:50", help="FIRST:END")
    parser.add_argument("--length", type=int, default=120, help="events a sequence")
    parser.add_argument("--profile", default="all", choices=[*PROFILES, *SIEGES, "all"])
    parser.add_argument("--command", help="such as '.venv/bin/pool decide --json'")
    parser.add_argument("--failures", type=int, default=1, help="stop after so many, a profile")
    parser.add_argument("--shrink-seconds", type=float, default=60.0, help="0: do not shrink")
    parser.add_argument("--output", help="write the smallest sequence there, as JSON lines")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    args = parsed(arguments)
    first, _, end = args.seeds.partition(":")
    seeds = range(int(first), int(end or int(first) + 1))
    other: Implementation = kernel_decisions
    if args.command:
        other = partial(command_decisions, args.command.split())
    profiles = (*PROFILES, *SIEGES) if args.profile == "all" else (args.profile,)
    failures = sum(compare(profile, seeds, other, args) for profile in profiles)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
