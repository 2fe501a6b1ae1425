# SPDX-License-Identifier: Apache-2.0
"""Arguments of the launch files; a misspelt one is rejected before any process starts."""

from __future__ import annotations

import pytest
from repository import CONFIG

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.ros.launch_arguments import addresses, cell_file, misspelt, refuse_strangers

pytestmark = pytest.mark.inline

KNOWN = ("config_file", "namespace", "cell_name", "use_rviz")


def test_misspelt_argument_started_default_cell():
    with pytest.raises(ConfigurationError, match=r"conifg_file:=.*\bconfig_file\b"):
        refuse_strangers(["namespace:=lab", "conifg_file:=single_sim.yaml"], KNOWN)
    with pytest.raises(ConfigurationError, match=r"^speed:=2: .*\bconfig_file\b"):
        refuse_strangers(["speed:=2"], KNOWN)


def test_options_and_arguments_of_launch_are_accepted():
    refuse_strangers(["--debug", "namespace:=a:=b", "launch-prefix:=gdb"], KNOWN)


def test_misspelt_names_from_including_file_are_found():
    assert misspelt(["use_rviz", "rig", "confg_file", "cell_names"], KNOWN) == {
        "confg_file": "config_file",
        "cell_names": "cell_name",
    }


def test_address_of_unknown_arm_added_arm():
    cell = CellConfig.from_yaml(CONFIG / "dual_real.yaml")
    assert addresses("", cell) == {}
    assert addresses("left:172.16.0.2, right:172.16.1.2", cell) == {
        "arms.left.robot_ip": "172.16.0.2",
        "arms.right.robot_ip": "172.16.1.2",
    }
    for pair in ("middle:172.16.0.2", "left=172.16.0.2", "left:"):
        with pytest.raises(ConfigurationError, match=rf"^robot_ips: .*'{pair}'"):
            addresses(f"right:172.16.1.2,{pair}", cell)


def test_cell_argument_is_path_or_package_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cell_file("dual_sim.yaml").parts[-3:] == ("multipanda_py", "config", "dual_sim.yaml")
    own = tmp_path / "dual_sim.yaml"
    own.touch()
    assert cell_file("dual_sim.yaml").samefile(own)
    with pytest.raises(ConfigurationError, match=r"^config_file: .*'no\.yaml'"):
        cell_file("no.yaml")
