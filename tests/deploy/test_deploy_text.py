"""deploy/README.md: what it tells a person to type exists, where nothing can run it here."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from deployment import COMPOSE, DEPLOY, check, compose, script_commands

TEXT = (DEPLOY / "README.md").read_text()
BLOCKS = re.findall(r"^```\w*\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
KUBERNETES = DEPLOY / "kubernetes"


def test_the_commands_exist() -> None:
    """Each `pool` and `pool-witness` in a block has the subcommand and the options it is given."""
    commands = [words for block in BLOCKS for words in script_commands(block)]
    assert len(commands) > 10
    for words in commands:
        check(words)


def test_compose_is_asked_for_services_that_it_has() -> None:
    """The file and the service that are named are there."""
    for line in "\n".join(BLOCKS).splitlines():
        if line.startswith("docker compose"):
            words = line.split(" #")[0].split()
            assert DEPLOY.parent / words[words.index("-f") + 1] == COMPOSE
            if "run" in words:
                assert words[-1] in compose()["services"]


def test_the_secrets_and_places_are_those_of_the_manifests() -> None:
    """Every secret and map that a pod wants is made, in its namespace; every directory is there."""
    text = "\n".join(BLOCKS)
    made = set(re.findall(r"kubectl -n (\S+) create (?:secret generic|configmap) (\S+)", text))
    wanted = set()
    for path in KUBERNETES.rglob("*.yaml"):
        space = {"pool": "pool", "witness": "pool-witness"}[path.relative_to(KUBERNETES).parts[0]]
        for one in yaml.safe_load_all(path.read_text()):
            pod = one.get("spec", {}).get("template", {}).get("spec", {})
            for volume in pod.get("volumes", ()):
                if "secret" in volume:
                    wanted.add((space, volume["secret"]["secretName"]))
                if "configMap" in volume:
                    wanted.add((space, volume["configMap"]["name"]))
    assert made == wanted
    for place in re.findall(r"kubectl \w+ -k (\S+)", TEXT):
        assert (DEPLOY.parent / place.rstrip("`") / "kustomization.yaml").exists(), place


def test_every_link_leads_somewhere() -> None:
    """Links to other documents, relative to this one."""
    for link in re.findall(r"\]\(([^)#]+)", TEXT):
        assert (DEPLOY / Path(link)).exists(), link
