"""Dashboard, alerts and the table of numbers to watch: they ask for what the programs export."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from deployment import DEPLOY
from prometheus_client import CollectorRegistry

from streams.steward.metrics import Metrics as StewardMetrics
from streams.views.metrics import Metrics as ViewMetrics
from witness.health import Health

DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "dashboards" / "pool.json").read_text())
RULES: dict[str, Any] = yaml.safe_load((DEPLOY / "dashboards" / "alerts.yaml").read_text())
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
TARGETS = [target for panel in PANELS for target in panel["targets"]]
EXPRESSIONS = [one["expr"] for one in (*ALERTS, *TARGETS)]
SCRAPED = frozenset({"instance", "job"})


def exported() -> dict[str, frozenset[str]]:
    """The names of all samples that a scraper may find, with their labels."""
    side: Any = SimpleNamespace(pools={}, lag={})
    found: dict[str, frozenset[str]] = {}
    for one in (StewardMetrics(), ViewMetrics(side), Health()):
        found |= dict(_samples(one.registry))
    return found


def _samples(registry: CollectorRegistry) -> Iterator[tuple[str, frozenset[str]]]:
    # What has no labels set yet has no samples yet: the names are made as the library makes them.
    for collector in registry._collector_to_names:
        families = list(collector.collect())
        for family in families:
            labels = getattr(collector, "_labelnames", None) or getattr(family, "_labelnames", ())
            for suffix, more in SUFFIXES[family.type]:
                yield family.name + suffix, frozenset((*labels, *more))


SUFFIXES: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "counter": (("_total", ()),),
    "gauge": (("", ()),),
    "histogram": (("_bucket", ("le",)), ("_sum", ()), ("_count", ())),
}


EXPORTED = exported()


@pytest.mark.parametrize("expression", sorted(set(EXPRESSIONS)))
def test_an_expression_asks_for_what_is_exported(expression: str) -> None:
    """Each metric exists, and has the labels that are asked of it."""
    names = re.findall(r"\bpool_\w+", expression)
    assert names
    for name in names:
        assert name in EXPORTED, name
    labels = frozenset[str]().union(*(EXPORTED[name] for name in names)) | SCRAPED
    for group in re.findall(r"\bby \(([^)]*)\)", expression):
        assert set(group.split(", ")) <= labels
    assert set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", expression)) <= labels


def kept(expression: str) -> set[str]:
    """The labels that an expression's result has."""
    if groups := re.findall(r"\bby \(([^)]*)\)", expression):
        return set.intersection(*(set(group.split(", ")) for group in groups))
    if expression.startswith(("absent", "sum(")):
        return set()
    return set.intersection(
        *(set(EXPORTED[name]) | SCRAPED for name in re.findall(r"\bpool_\w+", expression))
    )


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_what_to_do_and_names_labels_that_it_has(alert: dict[str, Any]) -> None:
    """A summary, a todo, a severity; a label that is not there would be printed as nothing."""
    assert alert["labels"]["severity"] in ("page", "ticket")
    said = " ".join(alert["annotations"][name] for name in ("summary", "todo"))
    assert set(re.findall(r"\$labels\.(\w+)", said)) <= kept(alert["expr"])
    for path in re.findall(r"\w+/README\.md", said):
        text = (DEPLOY.parent / path).read_text()
        for title in re.findall(r'README\.md, "([^"]+)"', said):
            assert f"## {title}" in text


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target["expr"])
def test_a_legend_names_labels_that_its_series_have(target: dict[str, Any]) -> None:
    """Else it reads as nothing."""
    wanted = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    assert wanted <= kept(target["expr"])


def test_alerts_and_panels_have_names_of_their_own() -> None:
    """A silence or a link means one of them."""
    names = [alert["alert"] for alert in ALERTS]
    assert len(names) == len(set(names))
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))


def test_the_table_of_numbers_to_watch_names_what_is_exported() -> None:
    """deploy/README.md's metrics exist, with their labels."""
    text = (DEPLOY / "README.md").read_text().split("## Which numbers to watch")[1]
    table = text.split("\n## ")[0]
    named = re.findall(r"`(pool_\w+)(?:\{(\w+)\})?`", table)
    assert len(named) > 5
    for name, label in named:
        known = {one.removesuffix("_bucket"): labels for one, labels in EXPORTED.items()}
        assert name in known, name
        assert not label or label in known[name]
