"""What a metrics scraper is told of a read side, in Prometheus text.

Invariant: labels are pools, partitions, routes and statuses; never claims, tenants or tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.views.context import Asked
from streams.views.readside import ReadSide

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)


class Metrics:
    """A registry of its own, so that two read sides in a process do not meet."""

    def __init__(self, side: ReadSide) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "pool_view_requests", "Requests answered.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "pool_view_request_seconds", "Time to the answer, streams left out.", ["route"],
            buckets=SECONDS, registry=self.registry,
        )  # fmt: skip
        self.registry.register(_Standing(side))


METRICS: Final = web.AppKey("metrics", Metrics)


class _Standing(Collector):
    """The pools as they stand when asked."""

    def __init__(self, side: ReadSide) -> None:
        self._side = side

    def collect(self) -> Iterable[Metric]:
        """See `prometheus_client`."""
        figures = {
            "receipts": GaugeMetricFamily(
                "pool_view_receipts", "Receipts folded.", labels=["pool"]
            ),
            "witnessed": GaugeMetricFamily(
                "pool_view_witnessed_receipts", "Receipts that enough witnesses vouch for.",
                labels=["pool"],
            ),
            "broken": GaugeMetricFamily(
                "pool_view_broken", "1 where the ledger does not verify.", labels=["pool"]
            ),
            "live": GaugeMetricFamily("pool_view_live_claims", "Live claims.", labels=["pool"]),
            "waiting": GaugeMetricFamily(
                "pool_view_waiting_claims", "Waiting claims.", labels=["pool"]
            ),
        }  # fmt: skip
        for name, view in self._side.pools.items():
            grading = view.grading()
            figures["receipts"].add_metric([name], view.length)
            figures["witnessed"].add_metric([name], grading.witnessed_length if grading else 0)
            figures["broken"].add_metric([name], int(view.broken is not None))
            figures["live"].add_metric([name], view.state.live_count)
            figures["waiting"].add_metric([name], len(view.state.waiting))
        lag = GaugeMetricFamily(
            "pool_view_lag_records", "Ledger records still to be folded.", labels=["partition"]
        )
        for partition, records in self._side.lag.items():
            lag.add_metric([str(partition)], records)
        return [*figures.values(), lag]


async def get_metrics(request: web.Request) -> web.Response:
    """`GET /metrics`."""
    Asked(request).may_see_every_pool()
    return web.Response(
        body=generate_latest(request.app[METRICS].registry),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )
