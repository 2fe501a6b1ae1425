# SPDX-License-Identifier: Apache-2.0
"""Instruction counts of the hot path: reading of callgrind dumps and limits of CI."""

import json
import re
import subprocess
import sys
from importlib import import_module

import pytest
from repository import BENCHMARKS

pytestmark = pytest.mark.inline

sys.path.append(str(BENCHMARKS))
instructions, callgrind = map(import_module, ("instructions", "parts.callgrind"))


def test_growth_limit_is_between_4_and_6_percent():
    assert instructions.grown({"a": 1.06, "b": 1.04}, {"a": 1.0, "b": 1.0}) == ["a"]


def test_condition_on_one_side_only_fails():
    assert instructions.grown({"new": 1.0}, {"old": 1.0}) == ["old", "new"]


def test_counts_are_relative_to_calibration():
    # Another build of Python and numpy scales all counts by the same factor.
    here = {"calibration": 800, "law": 400}
    other_machine = {name: 3 * count for name, count in here.items()}
    assert instructions.ratios(here) == instructions.ratios(other_machine) == {"law": 0.5}


def test_dump_has_condition_and_instruction_count():
    dump = (
        "version: 1\npart: 2\n\ndesc: Timerange: Basic block 1 - 9\n"
        "desc: Trigger: Client Request: UFIC x 2\n\npositions: line\nevents: Ir\n"
        "summary: 38043771\n\n\nfn=(1) loop\n16 400\n\ntotals: 38145260\n"
    )
    assert callgrind.DUMP.search(dump).groups() == ("UFIC x 2", "38043771")
    at_the_end = dump.replace("Client Request: UFIC x 2", "Program termination")
    assert callgrind.DUMP.search(at_the_end) is None


def test_tenth_dump_was_read_before_second(tmp_path):
    for number in (1, 2, 10):
        text = f"desc: Trigger: Client Request: law {number}\nevents: Ir\nsummary: {number}\n"
        (tmp_path / f"callgrind.out.{number}").write_text(text)
    assert list(callgrind.read_dumps(tmp_path)) == ["law 1", "law 2", "law 10"]


def test_accepted_ratios_cover_all_conditions():
    accepted = json.loads(instructions.ACCEPTED.read_text())["ratios"]
    assert {"DC-NF", "DC-CA-MA", "C-MA", "UFIC x 2", "inline cycle"} <= set(accepted)
    assert all(0.1 < ratio < 10.0 for ratio in accepted.values())


def run(*words):
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_other_python_skips_with_reason_and_alternative(monkeypatch, capsys):
    monkeypatch.setattr(instructions, "interpreter", lambda: "Python 3.12, riscv64")
    monkeypatch.setattr(instructions, "what_is_missing", lambda: "")
    monkeypatch.setattr(sys, "argv", ["instructions.py"])
    assert instructions.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "skipped" in line
    assert re.search("Python 3.12, riscv64.*--against", line)


def test_unknown_condition_gave_empty_instruction_table(monkeypatch, capsys):
    monkeypatch.setattr(instructions, "what_is_missing", lambda: "")
    monkeypatch.setattr(instructions, "counted", lambda *_: {})
    monkeypatch.setattr(
        sys, "argv", ["instructions.py", "--only", "XX", "--against", str(BENCHMARKS.parent)]
    )
    with pytest.raises(SystemExit) as ended:
        instructions.main()
    assert ended.value.code == 2
    assert re.search("'XX'.*DC-NF", capsys.readouterr().err)


@pytest.mark.sim
def test_unknown_condition_gave_empty_time_table():
    code, reported = run(BENCHMARKS / "compare.py", BENCHMARKS.parent, "--only", "XX")
    assert code == 2
    assert re.search("'XX'.*DC-NF, ", reported)
    assert "DC-NF moving" in reported.splitlines()[-1]
    assert "|" not in reported.replace("...", "")


@pytest.mark.long
def test_soak_of_negative_duration_passed():
    for words in (["--only", "soak", "--minutes", "-1"], ["--minutes", "0"], ["--faults", "-1"]):
        code, reported = run(BENCHMARKS / "chaos" / "run.py", *words)
        assert code == 2, reported
        assert "allowed" in reported
