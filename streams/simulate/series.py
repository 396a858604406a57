"""Amounts over time in buckets of equal length, exactly: unit times milliseconds in each.

Invariant: what is in the buckets sums to the amount's integral from the first to the last instant.
"""

from __future__ import annotations


class Series:
    """One amount that changes in steps."""

    def __init__(self, begin_ms: int, bucket_ms: int) -> None:
        self.buckets: list[int] = [0]
        self._begin_ms = begin_ms
        self._bucket_ms = bucket_ms
        self._now_ms = begin_ms
        self._amount = 0

    def add(self, change: int, now_ms: int) -> None:
        """The amount changes by so much at an instant not before the last one."""
        self.advance(now_ms)
        self._amount += change

    def advance(self, now_ms: int) -> None:
        """Time passes up to there."""
        while self._now_ms < now_ms:
            number = (self._now_ms - self._begin_ms) // self._bucket_ms
            edge_ms = self._begin_ms + (number + 1) * self._bucket_ms
            until_ms = min(edge_ms, now_ms)
            while len(self.buckets) <= number:
                self.buckets.append(0)
            self.buckets[number] += self._amount * (until_ms - self._now_ms)
            self._now_ms = until_ms

    @property
    def total(self) -> int:
        """The whole integral."""
        return sum(self.buckets)


def jain_ppm(shares: list[int]) -> int | None:
    """Jain's index of shares in ppm, in ppm: 1000000 where all are equal; None of no shares.

    (sum x)^2 / (n * sum x^2), floored; of zeros alone it is 1000000, since they are equal.
    """
    if not shares:
        return None
    squares = sum(share * share for share in shares)
    if squares == 0:
        return 1_000_000
    return sum(shares) ** 2 * 1_000_000 // (len(shares) * squares)
