# SPDX-License-Identifier: Apache-2.0
"""``pip install '.[all]'`` runs a cell without ROS; errors name the missing extra."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re

import pytest
from pip_environment import ROOT, PipEnvironment, build_wheel
from repository import DUAL_SIM

from multipanda_py import cell
from multipanda_py.exceptions import MissingExtra
from multipanda_py.registry import (
    EXTRAS,
    SEPARATE_EXTRAS,
    extras_named,
    missing,
    require,
)

pytestmark = pytest.mark.inline

NOTEBOOK = f"""
from multipanda_py import Cell
with Cell.from_yaml({str(DUAL_SIM)!r}, placement="inline") as cell:
    cell.step(50)
    print("z", cell.state("left").position_ee_in_base[2] > 0.1)
"""
IMPORTS = """
import importlib, json, pkgutil, sys
import multipanda_py
found = {}
rooms = ("simulation simulation.actuators simulation.drivetrain simulation.fci robots "
    "robots.importing hardware apps.commands")
for room in rooms.split():
    paths = [f"{multipanda_py.__path__[0]}/{room.replace('.', '/')}"]
    for one in pkgutil.iter_modules(paths, f"multipanda_py.{room}."):
        try:
            importlib.import_module(one.name)
        except ImportError as error:
            found[one.name] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory, wheel):
    """Function that makes the environment of an extra once."""
    made = {}

    def make(extra):
        if extra not in made:
            made[extra] = PipEnvironment(tmp_path_factory.mktemp("pip"), wheel, extra)
        return made[extra]

    return make


def test_registry_names_all_extras_of_setup():
    text = (ROOT / "setup.py").read_text()
    for name, registered in (("EXTRAS", EXTRAS), ("SEPARATE", SEPARATE_EXTRAS)):
        (table,) = re.findall(rf"^{name} = (\{{.*?^\}})$", text, re.M | re.S)
        assert ast.literal_eval(table).keys() == registered.keys()
    assert [m for ms in EXTRAS.values() for m in ms if not importlib.util.find_spec(m)] == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_extra_all_runs_cell_and_notebook_without_ros(environment, tmp_path):
    cell_file = tmp_path / "cell.yaml"  # a cell of the original name may run on this machine
    cell_file.write_text(
        DUAL_SIM.read_text().replace("name: dual_sim", f"name: pip_{os.getpid()}")
    )
    full = environment("all")
    code, reported = full.run("python", "-c", "import rclpy")
    assert (code, "No module named 'rclpy'" in reported) == (1, True)
    code, reported = full.run("multipanda", "run", cell_file, "--duration", "0.3")
    assert (code, "real-time factor" in reported) == (0, True), reported
    code, reported = full.run("python", "-c", NOTEBOOK)
    assert (code, reported.splitlines()[-1]) == (0, "z True"), reported
    code, reported = full.run("multimode_controller", "--ros-args", "--params-file", DUAL_SIM)
    assert code == 1
    assert re.match(r"multimode_controller: rclpy .*\bROS 2\b.*`make env`", reported.strip())


@pytest.mark.timeout(600)
def test_programs_without_extras_name_missing_extra(environment):
    bare = environment("")
    line = r"\w+ is not installed. Run: pip install 'multipanda_py\[run\]'"
    code, reported = bare.run("multipanda", "check", DUAL_SIM)
    assert (code, bool(re.fullmatch(f"multipanda: {line}\n", reported))) == (1, True), reported
    code, reported = bare.run("python", "-c", "from multipanda_py import Cell")
    assert re.fullmatch(
        f"multipanda_py.exceptions.MissingExtra: {line}", reported.splitlines()[-1]
    )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_modules_without_simulation_name_missing_extra(environment):
    base = environment("run")
    assert base.run("multipanda", "--help")[0] == 0
    line = "mujoco is not installed. Run: pip install 'multipanda_py[sim]'"
    for words in (("run", DUAL_SIM), ("render", DUAL_SIM, "-o", "picture.png")):
        code, reported = base.run("multipanda", *words)
        assert (code, line in reported, "Traceback" in reported) == (1, True, False), (
            words,
            reported,
        )
        assert all(line in one for one in reported.splitlines()), reported  # one for each arm
    code, reported = base.run("python", "-c", IMPORTS)
    assert code == 0, reported
    failed = json.loads(reported.splitlines()[-1])
    assert failed, "no module is missing"
    assert set(failed.values()) == {f"MissingExtra: {line}"}, failed


def test_missing_module_without_extra_is_not_renamed():
    with pytest.raises(ModuleNotFoundError) as raised, extras_named():
        import a_module_that_nobody_has  # noqa: F401
    assert not isinstance(raised.value, MissingExtra)
    require("json")
    with pytest.raises(MissingExtra, match=r"a_module_that_nobody_has.*installed"):
        require("a_module_that_nobody_has")
    assert isinstance(missing("mcap.writer"), ImportError)
    assert "[logs]" in str(missing("mcap.writer"))
    assert cell.Cell
