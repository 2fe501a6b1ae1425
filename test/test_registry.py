# SPDX-License-Identifier: Apache-2.0
"""Registry: built-in plug-ins by a table, third-party plug-ins by entry points."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from multipanda_py import registry
from multipanda_py.actuator import Actuator
from multipanda_py.apps.cli import main
from multipanda_py.backend import Backend
from multipanda_py.controllet import Controllet
from multipanda_py.controllets.hold import Hold
from multipanda_py.exceptions import ConfigurationError, UnknownName
from multipanda_py.feature import Feature
from multipanda_py.parameters import specs_of
from multipanda_py.targets import built_in_channels

pytestmark = [pytest.mark.inline, pytest.mark.workspace]

PACKAGE = Path(registry.__file__).parent
BASES = {
    "controllets": Controllet,
    "features": Feature,
    "backends": Backend,
    "actuators": Actuator,
}
BUILT_IN = [(kind, name) for kind in registry.KINDS for name in registry.built_in(kind)]


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a distribution with two controllets, one of which cannot be imported."""
    info = tmp_path / "their_laws-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-laws\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(
        "[multipanda_py.controllets]\ntheirs = their_laws:Theirs\nbroken = their_laws:Missing\n"
        "hold = their_laws:Theirs\n"
    )
    (tmp_path / "their_laws.py").write_text(
        "from multipanda_py.controllets.hold import Hold\nclass Theirs(Hold):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_laws", raising=False)
    forget()
    yield tmp_path
    sys.modules.pop("their_laws", None)
    monkeypatch.undo()
    forget()


def forget() -> None:
    for function in (registry.names, registry.find, registry.plug_ins):
        function.cache_clear()


@pytest.mark.parametrize(("kind", "name"), BUILT_IN)
def test_built_in_follows_naming_rule(kind: str, name: str) -> None:
    found = registry.find(kind, name)
    assert issubclass(found, BASES[kind])
    assert found.__name__ == registry.class_name(name)
    assert registry.BUILTIN_OBJECTS[kind][name] == f"{found.__module__}:{found.__name__}"
    assert found.__doc__
    if kind != "backends":
        specs_of(found.Params)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_built_in_table_is_sorted(kind: str) -> None:
    assert list(registry.built_in(kind)) == sorted(registry.built_in(kind))


def test_built_in_table_is_complete() -> None:
    """A plug-in is a leaf class of the hierarchy of a contract."""
    bases_of: dict[str, set[str]] = {}
    module_of: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                bases_of[node.name] = {ast.unparse(base).partition("[")[0] for base in node.bases}
                module_of[node.name] = ".".join(parts)

    def derives(name: str, base: str) -> bool:
        return any(one == base or derives(one, base) for one in bases_of.get(name, ()))

    inner = set().union(*bases_of.values())
    for kind, base in BASES.items():
        leaves = {name for name in bases_of.keys() - inner if derives(name, base.__name__)}
        found = {f"{module_of[name]}:{name}" for name in leaves}
        named = set(registry.BUILTIN_OBJECTS[kind].values())
        assert found <= named
        assert {target.partition(":")[2] for target in named - found} <= inner


def test_channels_are_listed_by_name() -> None:
    for name, channel in built_in_channels().items():
        assert channel.name == name


def test_class_name_is_camel_case_of_name() -> None:
    assert registry.class_name("joint_impedance") == "JointImpedance"


def test_base_class_is_not_listed_as_backend() -> None:
    assert not {"backend", "__init__"} & set(registry.names("backends"))
    assert {"mujoco", "mock"} <= set(registry.names("backends"))


def test_unknown_name_is_rejected_with_known_names() -> None:
    with pytest.raises(UnknownName, match=r"feature 'nulspace'.*null"):
        registry.find("features", "nulspace")


def test_controllet_of_other_distribution_is_found(distribution: Path) -> None:
    assert "theirs" in registry.names("controllets")
    found = registry.find("controllets", "theirs")
    assert found.__name__ == "Theirs"
    assert issubclass(found, Hold)


def test_broken_controllet_names_distribution_and_keeps_others(distribution: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"'broken' .*\btheir-laws\b"):
        registry.find("controllets", "broken")
    assert registry.find("controllets", "theirs").__name__ == "Theirs"


def test_plug_in_cannot_replace_built_in(distribution: Path) -> None:
    assert registry.find("controllets", "hold") is Hold
    assert registry.names("controllets").count("hold") == 1


def test_simulation_parts_are_not_listed_as_backends():
    assert set(registry.names("backends")) == {"franka", "mock", "mujoco", "ros2_control"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder for a module that the table names as a backend."""
    backends = {**registry.BUILTIN_OBJECTS["backends"], "new_file": "new_file:NewFile"}
    monkeypatch.setitem(registry.BUILTIN_OBJECTS, "backends", backends)
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    yield tmp_path
    sys.modules.pop("new_file", None)
    monkeypatch.undo()
    forget()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError: .*'nothing_of_that"),
        ("def x(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("Helper = 1", r"\bNewFile\b.*\bclass\b"),
        ("class NewFile:\n    pass", "class.*backend.Backend"),
        ("NewFile = 7", r"\b7\b.*class"),
    ],
)
def test_broken_built_in_file_ended_list_command(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    """``multipanda list`` ended with a traceback instead of listing the other plug-ins."""
    path = folder / "new_file.py"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=f"backend 'new_file' .*{path} .*{reason}"):
        registry.find("backends", "new_file")
    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert f"BROKEN: backend 'new_file' of {path} cannot be loaded" in out
    assert "\n  mujoco\n    Simul" in out
    assert "cartesian_impedance" in out
    assert main(["list", "--markdown", "--built-in"]) == 1
    found = capsys.readouterr()
    assert not found.out
    assert str(path) in found.err


@pytest.mark.parametrize(
    ("kind", "name", "declared"),
    [("features", "requires", "nullspace_configuration"), ("features", "channels", "wrench"),
     ("backends", "interfaces", "effort"), ("controllets", "contact_classes", "objects"),
     ("actuators", "identified", "stiffness")],
)  # fmt: skip
def test_string_instead_of_name_tuple_was_split_into_letters(
    monkeypatch: pytest.MonkeyPatch, kind: str, name: str, declared: str
) -> None:
    some = {"features": "wrench", "backends": "mock", "controllets": "hold", "actuators": "sea"}
    found = some[kind]
    monkeypatch.setattr(registry.find(kind, found), name, declared)
    forget()
    with pytest.raises(ConfigurationError, match=rf"\b{name}: .*'{declared}'"):
        registry.find(kind, found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("Theirs = print", "multipanda_py.controllet.Controllet"),
        ("class Theirs:\n    pass", "controllet.Controllet"),
        (
            "from multipanda_py.controllets.hold import Hold\n"
            "class Theirs(Hold):\n    Params = None\n",
            r"\bParams: .*None",
        ),
        (
            "from multipanda_py.controllets.hold import Hold\n"
            "class Theirs(Hold):\n    report_names = 'distance'\n",
            "report_names: .*'distance'",
        ),
        (
            "from multipanda_py.controllets.hold import Hold\n"
            "class Theirs(Hold):\n    default_features = 'nullspace'\n",
            "default_features: .*'nullspace'",
        ),
        (
            "from multipanda_py.controllets.hold import Hold\n"
            "class Theirs(Hold):\n    class Target(Hold.Target):\n        channels = 'pose'\n",
            r"Target\.channels: .*'pose'",
        ),
    ],
)
def test_broken_plug_in_is_listed_with_reason(
    distribution: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    (distribution / "their_laws.py").write_text(text)
    assert main(["list", "controllets"]) == 0
    out = capsys.readouterr().out
    assert out.count("BROKEN") == 2  # theirs and broken
    assert re.search(reason, out)
    assert "cartesian_impedance" in out
