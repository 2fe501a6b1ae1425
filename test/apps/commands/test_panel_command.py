# SPDX-License-Identifier: Apache-2.0
"""``multipanda panel`` runs a cell with a page, and reports missing parts in one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from urllib.request import urlopen

import pytest
from processes import TIMEOUT_SCALE
from repository import DUAL_SIM

from multipanda_py.apps.cli import main
from multipanda_py.exceptions import ConfigurationError
from multipanda_py.realtime.system.dds import check_domain


@pytest.fixture
def cell_file(tmp_path):
    file = tmp_path / "cell.yaml"
    name = f"test_panel_{os.getpid()}"
    file.write_text(DUAL_SIM.read_text().replace("name: dual_sim", f"name: {name}"))
    return file


@pytest.mark.slow
def test_page_is_served_while_cell_runs(cell_file):
    pytest.importorskip("viser", reason="viser is not installed: extra panel")
    command = [sys.executable, "-m", "multipanda_py.apps.cli", "panel", cell_file, "--port", "0"]
    with subprocess.Popen(
        [*command, "--duration", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        reported = ""
        for line in process.stdout:
            reported += line
            if found := re.search(r"the panel is at (http://127\.0\.0\.1:\d+/\S*)", line):
                assert b"<html" in urlopen(found[1], timeout=10.0 * TIMEOUT_SCALE).read()
        assert process.wait(10.0 * TIMEOUT_SCALE) == 0, reported
    assert "the panel is at" in reported


def test_cell_in_lockstep_has_no_panel(cell_file, capsys):
    if find_spec("viser") is None:
        assert main(["panel", str(cell_file)]) == 1
        assert "pip install 'multipanda_py[panel]'" in capsys.readouterr().err
        return
    text = cell_file.read_text().replace("rate: 1000.0", "rate: 1000.0\n      placement: inline")
    cell_file.write_text(text)
    assert main(["panel", str(cell_file)]) == 1
    assert "cell.placement: got inline, allowed process or thread" in capsys.readouterr().err


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_invalid_port_ended_in_wait_and_traceback(cell_file, capsys, port):
    with pytest.raises(SystemExit):
        main(["panel", str(cell_file), f"--port={port}"])
    assert f"argument --port: got '{port}', allowed 0 to 65535" in capsys.readouterr().err


@pytest.mark.parametrize("domain", ["abc", "-3", "233"])
def test_invalid_ros_domain_ended_in_traceback(domain, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    with pytest.raises(ConfigurationError, match=rf"^ROS_DOMAIN_ID: .*{domain}\b.*\b232$"):
        check_domain()


def test_address_of_another_machine_waited_without_message(cell_file, capsys):
    pytest.importorskip("viser", reason="viser is not installed: extra panel")
    assert main(["panel", str(cell_file), "--host", "203.0.113.7"]) == 1
    assert "--host: got 203.0.113.7, allowed an address of this machine" in capsys.readouterr().err
