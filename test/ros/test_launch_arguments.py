# SPDX-License-Identifier: Apache-2.0
"""Arguments of the launch files: a misspelt one is refused before anything is started."""

from __future__ import annotations

import pytest
from repository import CONFIG

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.ros.launch_arguments import addresses, cell_file, misspelt, refuse_strangers

pytestmark = pytest.mark.inline

KNOWN = ("config_file", "namespace", "cell_name", "use_rviz")


def test_a_misspelt_argument_started_the_default_cell():
    with pytest.raises(ConfigurationError, match=r"conifg_file:=.*\bconfig_file\b"):
        refuse_strangers(["namespace:=lab", "conifg_file:=single_sim.yaml"], KNOWN)
    with pytest.raises(ConfigurationError, match=r"^speed:=2: .*\bconfig_file\b"):
        refuse_strangers(["speed:=2"], KNOWN)


def test_words_that_are_no_arguments_and_those_of_launch_itself_pass():
    refuse_strangers(["--debug", "namespace:=a:=b", "launch-prefix:=gdb"], KNOWN)


def test_an_including_file_hands_on_names_of_its_own_and_misspelt_ones():
    assert misspelt(["use_rviz", "rig", "confg_file", "cell_names"], KNOWN) == {
        "confg_file": "config_file",
        "cell_names": "cell_name",
    }


def test_an_address_for_an_arm_that_is_not_there_added_one():
    cell = CellConfig.from_yaml(CONFIG / "dual_real.yaml")
    assert addresses("", cell) == {}
    assert addresses("left:172.16.0.2, right:172.16.1.2", cell) == {
        "arms.left.robot_ip": "172.16.0.2",
        "arms.right.robot_ip": "172.16.1.2",
    }
    for pair in ("middle:172.16.0.2", "left=172.16.0.2", "left:"):
        with pytest.raises(ConfigurationError, match=rf"^robot_ips: .*'{pair}'"):
            addresses(f"right:172.16.1.2,{pair}", cell)


def test_a_cell_is_a_file_or_the_name_of_one_of_the_package(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cell_file("dual_sim.yaml").parts[-3:] == ("multipanda_py", "config", "dual_sim.yaml")
    own = tmp_path / "dual_sim.yaml"
    own.touch()
    assert cell_file("dual_sim.yaml").samefile(own)
    with pytest.raises(ConfigurationError, match=r"^config_file: .*'no\.yaml'"):
        cell_file("no.yaml")
