# SPDX-License-Identifier: Apache-2.0
"""Springs that were identified, as a cell file takes them."""

from __future__ import annotations

import pytest
import yaml

from multipanda_py.config.cell_file import CellConfig
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.robots.measured_files import actuator_text

pytestmark = pytest.mark.inline

FOUND = {"a_1": [5.0, 6.0], "k_1": 0.5, "a_2": 5.5, "k_2": [0.4, 0.3]}
GROUP = {"type": "qbmove", "joints": ["joint1", "joint3"], "identified": "springs.yaml"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "springs.yaml").write_text(actuator_text("qbmove", FOUND, {"samples": 300}))
    return tmp_path


def read(folder, **changed):
    arm = {"actuators": {"a": {**GROUP, **changed}}}
    path = folder / "cell.yaml"
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": {"arms": {"left": arm}}}}))
    return CellConfig.from_yaml(path).arms["left"].actuators["a"]


def test_a_file_beside_the_cell_has_the_springs_and_what_the_cell_says_goes_before_it(
    folder, monkeypatch
):
    monkeypatch.chdir("/")
    springs = read(folder, params={"k_1": 0.7, "max_deflection": 0.9}).actuator(2)
    assert springs.of["a_1"].tolist() == [5.0, 6.0]
    assert springs.of["k_2"].tolist() == [0.4, 0.3]
    assert springs.of["k_1"].tolist() == [0.7, 0.7]
    assert springs.of["max_deflection"].tolist() == [0.9, 0.9]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"identified": "none.yaml"}, r"a\.identified: .*none\.yaml:"),
        ({"type": "sea"}, r"a\.identified: .*type: .*\bqbmove\b.*\bsea\b"),
        ({"joints": ["joint1"]}, r"a\.params: qbmove: a_1:.*\b2\b.*\b1\b"),
        ({"identified": 3}, r"a\.identified:.*\b3\b"),
    ],
)
def test_a_file_that_does_not_fit_the_group_is_refused(folder, changed, reason):
    with pytest.raises(ConfigurationError, match=rf"arms\.left\.actuators\.{reason}"):
        read(folder, **changed)
