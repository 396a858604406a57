"""The manifests: whole, shut, and of one mind with the programs that they run."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from deployment import DEPLOY, PROGRAMS, check, compose, script_commands, texts

KUBERNETES = DEPLOY / "kubernetes"
FILES = sorted(KUBERNETES.rglob("*.yaml"))
KUSTOMIZATIONS = [path for path in FILES if path.name == "kustomization.yaml"]
MANIFESTS = [path for path in FILES if path.name != "kustomization.yaml"]
Object = dict[str, Any]


def objects(path: Path) -> list[Object]:
    """The objects in a manifest."""
    return list(yaml.safe_load_all(path.read_text()))


EVERY = [(path, one) for path in MANIFESTS for one in objects(path)]
WORKLOADS = [one for _, one in EVERY if "template" in one.get("spec", {})]
NAMED = {one["metadata"]["name"]: one for one in WORKLOADS}
CONTAINERS = [
    (one, container)
    for one in WORKLOADS
    for kind in ("initContainers", "containers")
    for container in one["spec"]["template"]["spec"].get(kind, ())
]


def pod(name: str) -> Object:
    """The pod of a workload."""
    found: Object = NAMED[name]["spec"]["template"]["spec"]
    return found


def option(words: list[str], name: str) -> str:
    """The value of an option in a command."""
    (found,) = [word for word in words if word.startswith(f"--{name}=")]
    return found.partition("=")[2]


def test_every_manifest_belongs_to_a_kustomization_and_is_there() -> None:
    """What is listed exists; what exists is listed, once."""
    listed: list[Path] = []
    for path in KUSTOMIZATIONS:
        kustomization = yaml.safe_load(path.read_text())
        part = path.relative_to(KUBERNETES).parts[0]
        assert kustomization["namespace"] == {"pool": "pool", "witness": "pool-witness"}[part]
        for resource in kustomization["resources"]:
            assert (path.parent / resource).exists(), (path, resource)
            listed += [path.parent / resource] * resource.endswith(".yaml")
    assert sorted(listed) == MANIFESTS


def test_names_are_given_once_in_a_namespace() -> None:
    """Two objects of one kind and name would be one, the later."""
    keys = [
        (path.relative_to(KUBERNETES).parts[0], one["kind"], one["metadata"]["name"])
        for path, one in EVERY
    ]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("container", [c for _, c in CONTAINERS], ids=lambda c: c["name"])
def test_a_container_runs_a_command_that_exists(container: Object) -> None:
    """Each subcommand and each option is one that the program has."""
    words = container["command"]
    if words[0] in PROGRAMS:
        check(words)
    else:
        assert words[:3] == ["install", "-m", "0600"], "else it only lays a key"


def test_the_image_is_the_one_that_compose_builds() -> None:
    """One name everywhere, to be replaced in one way."""
    built = {one["image"] for one in compose()["services"].values() if "build" in one}
    assert {container["image"] for _, container in CONTAINERS} == built


def test_there_are_as_many_partitions_and_replicas_as_in_compose() -> None:
    """The two ways to deploy do not differ without a reason."""
    (words,) = script_commands(compose()["services"]["topics"]["command"][-1].replace("$$", "$"))
    ours = pod("topics")["containers"][0]["command"]
    for name in ("partitions", "replicas"):
        assert option(ours, name) == words[words.index(f"--{name}") + 1]


@pytest.mark.parametrize("one", WORKLOADS, ids=lambda one: one["metadata"]["name"])
def test_a_pod_is_shut(one: Object) -> None:
    """No root, no rights, nothing written but on volumes, no account of the cluster's."""
    spec = one["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["enableServiceLinks"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert f"--uid {spec['securityContext']['runAsUser']} " in (DEPLOY / "Dockerfile").read_text()
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("one", WORKLOADS, ids=lambda one: one["metadata"]["name"])
def test_every_path_that_a_command_names_is_mounted(one: Object) -> None:
    """Mounts have volumes, volumes are mounted; keys and logins are only read."""
    spec = one["spec"]["template"]["spec"]
    claimed = {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())}
    volumes = {volume["name"] for volume in spec["volumes"]} | claimed
    mounted = set()
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        mounted |= {mount["name"] for mount in mounts.values()}
        for word in container["command"][1:]:
            path = word.partition("=")[2] if word.startswith("--") else word
            if path.startswith("/"):
                assert "/" + path.split("/")[1] in mounts, path
        for place in {"/keys", "/kafka", "/tokens", "/trust"} & mounts.keys():
            assert mounts[place].get("readOnly") or container["command"][0] == "install"
    assert mounted == volumes


@pytest.mark.parametrize("name", ["steward", "views", "witness"])
def test_probes_services_and_policies_name_the_port_that_is_served(name: str) -> None:
    """One number, from the command to the scraper."""
    container = pod(name)["containers"][0]
    port = int(option(container["command"], "port"))
    assert option(container["command"], "host") == "0.0.0.0"
    (named,) = container["ports"]
    assert named["containerPort"] == port
    for probe in (container["readinessProbe"], container["livenessProbe"]):
        if "httpGet" in probe:
            assert probe["httpGet"]["port"] == named["name"]
        else:
            assert f":{port}/" in probe["exec"]["command"][-1]
    service, policy = _of("Service", name), _of("NetworkPolicy", name)
    (let_in,) = policy["spec"]["ingress"]
    assert [one["port"] for one in let_in["ports"]] == [port]
    assert service["spec"]["ports"] == [
        {"name": named["name"], "port": port, "targetPort": named["name"]}
    ]


def test_selectors_find_the_pods_that_they_are_for() -> None:
    """Services, budgets, policies, and each workload's own."""
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in NAMED.items()}
    for _, one in EVERY:
        name, spec = one["metadata"]["name"], one.get("spec", {})
        for key in ("selector", "podSelector"):
            wanted = spec.get(key) or {}
            wanted = wanted.get("matchLabels", wanted)
            assert not wanted or wanted == labels[name], (one["kind"], name)


def test_the_witness_and_the_stewards_are_kept_apart() -> None:
    """Namespaces, keys, logins, nodes, and no way from one to the other."""
    for part in ("pool", "witness"):
        policies = [
            one for path, one in EVERY
            if one["kind"] == "NetworkPolicy" and path.relative_to(KUBERNETES).parts[0] == part
        ]  # fmt: skip
        shut = [one["spec"] for one in policies if one["metadata"]["name"] == "nothing-else"]
        assert shut == [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]
        peers = {
            json.dumps(peer["namespaceSelector"]["matchLabels"])
            for one in policies
            for way in ("ingress", "egress")
            for rule in one["spec"].get(way, ())
            for peer in rule.get("from", rule.get("to"))
            if "namespaceSelector" in peer
        }
        spaces = [
            {"kubernetes.io/metadata.name": n} for n in ("kube-system", "kafka", "monitoring")
        ]
        clients = [{"pool-views": "yes"}] if part == "pool" else []
        assert peers == {json.dumps(one) for one in (*spaces, *clients)}
    secrets = {name: _secrets(name) for name in NAMED}
    assert not secrets["steward"] & secrets["witness"]
    assert not secrets["views"] & (secrets["witness"] | secrets["steward"])
    apart = pod("witness")["affinity"]["podAntiAffinity"]
    (term,) = apart["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["namespaces"] == ["pool"]
    labels = NAMED["steward"]["spec"]["template"]["metadata"]["labels"]
    assert term["labelSelector"]["matchLabels"] == labels


def test_a_witness_is_one_and_its_store_is_made_by_hand_only() -> None:
    """One replica, one volume that is no template; `init` is a job that is not tried again."""
    assert NAMED["witness"]["spec"]["replicas"] == 1
    assert "volumeClaimTemplates" not in NAMED["witness"]["spec"]
    job = NAMED["witness-init"]
    assert (job["kind"], job["spec"]["backoffLimit"]) == ("Job", 0)
    makers = [
        one["metadata"]["name"]
        for one, container in CONTAINERS
        if "init" in container["command"][1:2]
    ]
    assert makers == ["witness-init"]
    run, init = (pod(name)["containers"][0]["command"] for name in ("witness", "witness-init"))
    for name in ("key", "state"):
        assert option(run, name) == option(init, name)


def test_a_steward_has_the_time_that_compose_gives_it_to_stop() -> None:
    """Heads and snapshots are written before anybody kills it."""
    seconds = pod("steward")["terminationGracePeriodSeconds"]
    assert compose()["services"]["steward"]["stop_grace_period"] == f"{seconds}s"


@pytest.mark.parametrize(
    ("workload", "probe", "status", "body", "good"),
    [
        ("steward", "livenessProbe", 200, b"well\n", True),
        ("steward", "livenessProbe", 503, b"a partition has stopped for good\n", True),
        ("steward", "livenessProbe", 0, b"", False),
        ("views", "readinessProbe", 200, b'{"ok": true, "caught_up": true}', True),
        ("views", "readinessProbe", 503, b'{"ok": false, "caught_up": true}', True),
        ("views", "readinessProbe", 503, b'{"ok": false, "caught_up": false}', False),
        ("views", "readinessProbe", 0, b"", False),
    ],
)
def test_a_probe_of_ours_judges_as_its_comment_says(
    workload: str, probe: str, status: int, body: bytes, good: bool
) -> None:
    """What restarts heal, and who may be asked; status 0: nobody answers."""
    script = pod(workload)["containers"][0][probe]["exec"]["command"][-1]
    port = option(pod(workload)["containers"][0]["command"], "port")
    with _answering(status, body) as there:
        script = script.replace(f":{port}/", f":{there}/")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert (done.returncode == 0) is good


def _of(kind: str, name: str) -> Object:
    (found,) = [one for _, one in EVERY if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def _secrets(name: str) -> set[str]:
    return {one["secret"]["secretName"] for one in pod(name)["volumes"] if "secret" in one}


@contextmanager
def _answering(status: int, body: bytes) -> Iterator[int]:
    """The port of a server that answers the same to all; one that nobody has for status 0."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = int(server.server_address[1])
        if status:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield port
            server.shutdown()
            return
    yield port


def test_nothing_is_left_to_fill_in() -> None:
    """No templating: every text stands as it is used."""
    for path, one in EVERY:
        assert not any("{{" in text or "<" in text for text in texts(one)), path
