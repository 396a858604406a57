"""What an auditor may object to in one decision, by the books as they stand before it.

Not here: posting it (`auditor`), the sums that are asked for (`books`).

1. An admission exceeds nothing of §4.2, and says what is borrowed where.
2. A split sums to its reading; a settlement's figure is the report, the meter or the reservation,
   and never a zero for an unknown.
3. A victim lies in no subtree that is within its guarantee, and its cost is the books' own.

Profile: §2.5, §2.8, §4.2, §4.4, §5.
"""

from __future__ import annotations

from typing import Any

from schemas.records import GRADE_RANK, MDEV, ROOT, ClaimReleased, MeterRead
from tests.kernel.books import Books, Entry

Body = dict[str, Any]


def to_admission(books: Books, entry: Entry, body: Body) -> None:
    """It exceeds no capacity, limit, ceiling or `max_live`; who may not borrow does not."""
    demand = entry.demand
    used, asks = books.usage(), books.asks(demand)
    borrows = books.borrows(used, entry.leaf, demand)
    assert body["mode"] == ("borrowed" if borrows else "guaranteed")
    assert not borrows or (entry.grade != "Estimator" and entry.preemptible), "who may borrow"
    borrowed = {}
    for node in books.path(entry.leaf):
        place = books.places[node]
        live = sum(node in books.path(one.leaf) for one in books.live)
        assert place.max_live is None or live < place.max_live, "max_live"
        amounts = {}
        for name in asks:
            wanted = used[node][name] + demand[name]
            assert wanted <= place.limit.get(name, wanted), ("limit", node, name)
            assert demand[name] <= books.room(used, node, name), ("capacity", node, name)
            over = books.over(used, node, demand, name)
            if borrows and over > 0:
                assert place.borrow, ("borrowing-off", node)
                assert wanted <= books.ceiling(used, node, name), ("share", node, name)
            if min(demand[name], over) > 0:
                amounts[name] = min(demand[name], over)
        if amounts:
            borrowed[node] = amounts
    assert body.get("borrowed", {}) == (borrowed if borrows else {})
    assert ("borrowed" in body) == borrows


def to_split(event: MeterRead, body: Body) -> None:
    """Shares are proportional to within a microjoule, and sum to the reading exactly."""
    assert event.uj is not None and event.grade is not None
    total = sum(one.mdev for one in event.occupants)
    held = {one.claim: one.mdev for one in event.occupants}
    assert [share["claim"] for share in body["shares"]] == sorted(held)
    assert sum(share["uj"] for share in body["shares"]) == event.uj
    for share in body["shares"]:
        exact = event.uj * held[share["claim"]]
        assert abs(share["uj"] * total - exact) < total
    shared = len(held) > 1 and event.grade == "HwShunt"
    assert body["grade"] == ("ModelBased" if shared else event.grade)


def to_settlement(entry: Entry, event: ClaimReleased, body: Body) -> None:
    """Reality first: no report under the meter, no unknown as zero."""
    actual, spent = event.actual, body["spent"]
    disputed = body.get("disputed", False)
    assert disputed == (actual is not None and actual.uj < entry.metered_uj)
    assert spent.get("prior_uj", 0) == entry.charged_uj
    match spent["basis"]:
        case "metered":
            assert (spent["uj"], spent["grade"]) == (entry.metered_uj, entry.metered_grade)
            assert disputed or not entry.gap
        case "reported":
            assert actual is not None and actual.uj >= entry.metered_uj
            assert (spent["uj"], spent["grade"]) == (actual.uj, actual.grade)
        case basis:
            assert basis == "reserved" and actual is None and spent["grade"] == "Estimator"
            assert spent["uj"] == max(entry.reserved_uj, entry.metered_uj)


def to_victim(books: Books, entry: Entry, claimant_leaf: str, body: Body) -> None:
    """Nobody inside a guarantee is reclaimed: it borrows up to the node that both lie below."""
    assert entry.preemptible and entry.victim_of is None and claimant_leaf != entry.leaf
    others = [one for one in books.live if one.victim_of is not None]
    used, mine = books.usage(without=others), books.path(claimant_leaf)
    below = [node for node in books.path(entry.leaf) if node not in mine]
    assert any(
        entry.frees(name) > 0
        and all(used[node][name] > books.guaranteed(node, name) for node in below)
        for name in books.resources
    ), ("inside its guarantee", entry)
    measured = entry.completed > 0 and GRADE_RANK[entry.metered_grade or "Estimator"] > 0
    assert body["basis"] == ("measured" if measured else "declared")
    if measured:
        assert body["cost"] == {"uj": entry.metered_uj, "completed": entry.completed}
    else:
        assert body["priority"] == entry.priority


def to_disruption(books: Books, ppm: int | None) -> None:
    """What is being reclaimed stays within its share, but for a first victim."""
    victims = [one for one in books.live if one.victim_of is not None]
    if ppm is not None and len(victims) > 1:
        mdev = sum(entry.demand[MDEV] for entry in victims)
        assert mdev * 10**6 <= ppm * books.guaranteed(ROOT, MDEV)
