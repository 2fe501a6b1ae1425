# SPDX-License-Identifier: Apache-2.0
"""Plain YAML files that a client names."""

from __future__ import annotations

import time

import pytest

from multipanda_py.exceptions import ConfigurationError
from multipanda_py.files import MAX_NODES, key_names, read_plain
from multipanda_py.robots.extra_data import read_extra

pytestmark = pytest.mark.inline

SECRET = "$6$hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"figures: !!bool {SECRET}",
        "figures: !!int ''",
        "figures: !!float ''",
        "figures: " + "1:" * 400 + "1.0",
        f"root:{SECRET}:19000:: 1",
        f"root:{SECRET}:19000",
    ],
)
def test_value_of_wrong_tag_ended_in_traceback_with_content(tmp_path, text):
    path = tmp_path / "extra.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as error:
        read_extra(path)
    assert str(path) in str(error.value)
    assert SECRET not in str(error.value)


def test_base_60_numbers_took_quadratic_time(tmp_path):
    path = tmp_path / "extra.yaml"
    sizes, times = (20_000, 400_000), []
    for size in sizes:
        path.write_text("figures: " + "1:" * size + "1")
        begun = time.process_time()
        with pytest.raises(ConfigurationError):
            read_plain(path)
        times.append(time.process_time() - begun)
    assert times[1] < 60.0 * times[0] + 0.5  # 20 times the length


def test_numbers_are_read_by_yaml_1_1_rules(tmp_path):
    path = tmp_path / "extra.yaml"
    path.write_text("a: 12\nb: 0x1f\nc: 017\nd: 1.5e+3\ne: -.inf\nf: true\ng: 1_000")
    assert read_plain(path) == {
        "a": 12, "b": 31, "c": 15, "d": 1500.0, "e": float("-inf"), "f": True, "g": 1000,
    }  # fmt: skip


def test_key_names_hide_content_of_unusual_keys():
    assert key_names(["stiffness", "a b", 7, "x" * 50]) == [
        "stiffness", "a key of 3 characters", "a key of 1 characters", "a key of 50 characters",
    ]  # fmt: skip
    assert MAX_NODES < 1_000_000
