"""Who imports whom is as the architecture draws it, and a forbidden import is found."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "streams", "witness")
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def lint(folder: Path) -> tuple[int, str]:
    """Exit code and output of `lint-imports` in a folder with the packages and the contracts."""
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def contracts() -> dict[str, str]:
    """The contracts' keys with their names."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    sections = [name for name in parser.sections() if name.startswith("importlinter:contract:")]
    return {name.rpartition(":")[2]: parser[name]["name"] for name in sections}


def test_every_contract_is_kept() -> None:
    """`lint-imports` finds no import that the contracts do not allow."""
    code, output = lint(ROOT)
    assert code == 0, output
    assert f"{len(contracts())} kept, 0 broken" in output


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """One forbidden import: where it is planted, what it imports, which contract it breaks."""

    place: str
    imports: str
    breaks: str


PLANTED = (
    Planted(place="witness/store.py", imports="streams.topics", breaks="packages"),
    Planted(place="streams/topics.py", imports="witness.store", breaks="packages"),
    Planted(place="schemas/merkle.py", imports="streams.topics", breaks="packages"),
    Planted(place="streams/steward/draft.py", imports="streams.cli.main", breaks="layers"),
    Planted(place="streams/logs/contract.py", imports="streams.steward", breaks="layers"),
    Planted(place="streams/kernel/fit.py", imports="streams.topics", breaks="layers"),
    Planted(place="streams/logs/stored.py", imports="streams.kernel.state", breaks="logs"),
    Planted(place="streams/kernel/run.py", imports="schemas.cbor", breaks="kernel-records"),
    Planted(place="streams/kernel/deadlines.py", imports="time", breaks="kernel-pure"),
    Planted(place="streams/kernel/idle.py", imports="random", breaks="kernel-pure"),
    Planted(place="schemas/keys.py", imports="os", breaks="schemas-pure"),
)


def planted(folder: Path, plants: tuple[Planted, ...]) -> None:
    """A copy of the packages with the imports planted in it."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pyc*"))
    shutil.copy(ROOT / ".importlinter", folder)
    for plant in plants:
        with (folder / plant.place).open("a") as file:
            file.write(f"\nimport {plant.imports}\n")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The findings in a copy that has every planted import."""
    folder = tmp_path_factory.mktemp("planted")
    planted(folder, PLANTED)
    code, output = lint(folder)
    assert code != 0
    return output


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: f"{plant.place}-{plant.imports}")
def test_a_planted_import_is_found(plant: Planted, broken: str) -> None:
    """A forbidden import breaks its contract, and is named with the module that has it."""
    _, _, findings = broken.partition("Broken contracts")
    module = plant.place.removesuffix(".py").replace("/", ".")
    name = contracts()[plant.breaks]
    section = findings.partition(name)[2]
    assert section, f"{name!r} is not broken"
    assert f"{module} -> {plant.imports}" in findings


def test_a_module_without_a_layer_is_found(tmp_path: Path) -> None:
    """What is new below `streams` has to be given its layer."""
    planted(tmp_path, ())
    (tmp_path / "streams" / "novelty.py").write_text('"""New."""\n')
    code, output = lint(tmp_path)
    assert code != 0
    assert "novelty" in output


def test_every_contract_has_a_planted_import() -> None:
    """No contract stands that nobody has seen fail."""
    assert {plant.breaks for plant in PLANTED} == set(contracts())
