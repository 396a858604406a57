"""The rules of an entitlement tree (§2.2).

Not handled here: whether a leaf that is in use would be lost.
"""

from __future__ import annotations

import re
from typing import Any

from .books import Node, parent

NODE_ID = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)*\Z", re.ASCII)


def build_tree(root: Node, given: list[dict[str, Any]], resources: list[str]) -> dict[str, Node]:
    """The nodes by id, the root among them, every resource in every guarantee."""
    nodes = {root.id: root}
    for one in given:
        guarantee = {r: one["guarantee"].get(r, 0) for r in resources}
        nodes[one["id"]] = Node(**{**one, "guarantee": guarantee})
    return nodes


def tree_fault(
    root: Node, given: list[dict[str, Any]], resources: list[str]
) -> dict[str, str] | None:
    """The first offending node and rule, or None."""
    seen: set[str] = set()
    for one in given:
        if not NODE_ID.match(one["id"]):
            return {"id": one["id"], "rule": "id"}
        if one["id"] in seen:
            return {"id": one["id"], "rule": "unique"}
        seen.add(one["id"])
    for one in given:
        rule = node_fault(one, seen | {root.id})
        if rule is not None:
            return {"id": one["id"], "rule": rule}
    nodes = build_tree(root, given, resources)
    for node in nodes.values():
        kids = [kid for kid in nodes.values() if kid is not root and parent(kid.id) == node.id]
        for r in resources:
            if sum(kid.guarantee[r] for kid in kids) > node.guarantee[r]:
                return {"id": node.id, "rule": "guarantee-sum"}
    return None


def node_fault(one: dict[str, Any], present: set[str]) -> str | None:
    if parent(one["id"]) not in present:
        return "parent"
    if one.get("weight", 1) < 1:
        return "weight"
    for resource, most in one.get("limit", {}).items():
        if most < one["guarantee"].get(resource, 0):
            return "limit"
    return None
