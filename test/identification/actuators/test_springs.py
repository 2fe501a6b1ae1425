# SPDX-License-Identifier: Apache-2.0
"""Identification of springs from noisy torques and deflections, and rejected data."""

from __future__ import annotations

import numpy as np
import pytest
import yaml
from long_form import LONG

from multipanda_py import registry
from multipanda_py.apps.cli import main
from multipanda_py.exceptions import ActuatorRejected, ConfigurationError, IdentificationRejected
from multipanda_py.identification.actuators.springs import identify_springs
from multipanda_py.robots.measured_files import actuator_from, read_actuator

pytestmark = pytest.mark.inline

PAPER = {"a_1": 6.257, "k_1": 0.01038, "a_2": 3.9, "k_2": 0.08918}
SECOND = {"a_1": 3.383, "k_1": 0.1015, "a_2": 7.011, "k_2": 0.05944}
"""Spring parameters of both joints of the arm in the paper, with corrected order of k and a."""
TRUTH = {
    "sea": ({"stiffness": 350.0}, 0.5, (0.0,)),
    "qbmove": (PAPER, 0.02, (0.05, 0.2, 0.4)),
    "bavs": ({"a": 1.5e-6, "b": 3e-6, "exponent": 8.0}, 0.05, (0.01, 0.1, 0.2)),
    "awas2": ({"spring_stiffness": 14.0}, 0.05, (0.005, 0.01, 0.02)),
}
"""Parameters, noise of the torque sensor [Nm], presets."""
TRIALS = 100 if LONG else 6


def measured(kind, params, noise=0.0, presets=(0.0,), samples=300, seed=0, range_fraction=0.95):
    """Return bench measurements of an oscillating joint at random presets."""
    rng = np.random.default_rng(seed)
    springs = registry.find("actuators", kind)(1, params)
    preset = rng.choice(presets, samples)
    reach = springs.of["max_deflection"] - preset * springs.is_antagonistic
    q = 0.3 - range_fraction * reach * np.sin(np.linspace(0.0, 20.0 * np.pi, samples))
    theta = springs.references(np.full(samples, 0.3), preset)
    found = springs.elastic_torque(q[:, None], *(t[:, None] for t in theta))
    columns = {"q": q, "theta_1": theta[0], "theta_2": theta[1], "preset": preset}
    errors = rng.normal(scale=noise, size=(samples, 3)) if noise else np.zeros((samples, 3))
    torques = np.hstack([found.link, found.motor_1, found.motor_2]) + errors
    return {**columns, **dict(zip(("tau", "tau_1", "tau_2"), torques.T))}


def without(columns, *names):
    return {name: values for name, values in columns.items() if name not in names}


def link_only(columns):
    return without(columns, "tau_1", "tau_2", "preset")


@pytest.mark.parametrize("kind", TRUTH)
def test_springs_are_identified_within_three_standard_deviations(kind):
    params, noise, presets = TRUTH[kind]
    found = identify_springs(kind, link_only(measured(kind, params, noise, presets)))
    assert found.values.keys() == params.keys()
    for name, value in params.items():
        assert found.deviations[name] < 0.1 * value
        assert abs(found.values[name] - value) < 3.0 * found.deviations[name], name
    assert found.rmse["tau"] == pytest.approx(noise, rel=0.2)
    assert found.explained_variance > 0.99
    assert found.independent > 0.9 * found.samples


@pytest.mark.long
@pytest.mark.parametrize("kind", ["awas2", "bavs", "sea"])
def test_standard_deviations_match_scatter_of_repeated_experiments(kind):
    params, noise, presets = TRUTH[kind]
    normalised_errors = []
    for seed in range(max(24, TRIALS)):
        columns = link_only(measured(kind, params, noise, presets, samples=120, seed=seed))
        found = identify_springs(kind, columns)
        normalised_errors += [(found.values[n] - params[n]) / found.deviations[n] for n in params]
    assert np.abs(normalised_errors).max() < 5.0
    assert 0.6 < np.sqrt(np.mean(np.square(normalised_errors))) < 1.5


@pytest.mark.long
def test_random_springs_are_identified_correctly_or_rejected():
    rng = np.random.default_rng(5)
    normalised_errors = []
    for seed in range(TRIALS):
        scale = np.exp(rng.uniform(-1.2, 1.2, 4))
        params = dict(zip(PAPER, np.array([5.0, 0.03, 5.0, 0.03]) * scale))
        columns = measured("qbmove", params, 0.02, (0.05, 0.2, 0.4), seed=seed)
        try:
            found = identify_springs("qbmove", link_only(columns))
        except IdentificationRejected:
            continue
        normalised_errors += [(found.values[n] - params[n]) / found.deviations[n] for n in params]
    assert len(normalised_errors) > 2 * TRIALS  # at least half of the springs are identified
    assert np.abs(normalised_errors).max() < 6.0
    assert 0.8 < np.sqrt(np.mean(np.square(normalised_errors))) < 1.25


def test_motor_torques_reduce_standard_deviations():
    columns = measured("qbmove", SECOND, 0.02, (0.2,))
    both = identify_springs("qbmove", without(columns, "preset"))
    alone = identify_springs("qbmove", link_only(columns))
    assert both.rmse.keys() == {"tau", "tau_1", "tau_2"}
    for name, value in SECOND.items():
        assert both.deviations[name] < alone.deviations[name]
        assert abs(both.values[name] - value) < 3.0 * both.deviations[name]


def test_equilibrium_and_deflection_columns_match_motor_positions():
    columns = measured("bavs", {}, 0.02, (0.05, 0.2))
    by_motors = identify_springs("bavs", link_only(columns))
    tau, q, preset = columns["tau"], columns["q"], columns["preset"]
    equilibrium = {"tau": tau, "q": q, "equilibrium": np.full(len(q), 0.3), "preset": preset}
    deflection = {"tau": tau, "deflection": 0.3 - q, "preset": preset}
    for other in (equilibrium, deflection):
        assert identify_springs("bavs", other).values == pytest.approx(by_motors.values, rel=1e-6)


def test_sensor_offset_is_separated_from_springs():
    columns = link_only(measured("qbmove", SECOND, 0.005, (0.05, 0.2, 0.4)))
    columns["tau"] = columns["tau"] + 0.1
    found = identify_springs("qbmove", columns, offset=True)
    assert found.offset == pytest.approx((0.1, 0.001), abs=0.003)
    for name, value in SECOND.items():
        assert abs(found.values[name] - value) < 3.5 * found.deviations[name]
    blind = identify_springs("qbmove", columns)
    assert blind.rmse["tau"] > 3.0 * found.rmse["tau"]


def test_correlated_errors_made_standard_deviations_too_small():
    """Friction makes errors of neighbouring rows correlated."""
    columns = link_only(measured("sea", {"stiffness": 5.0}, 0.001))
    friction = {**columns, "tau": columns["tau"] + 0.2 * np.sign(np.gradient(columns["q"]))}
    found = identify_springs("sea", friction)
    assert found.independent < 0.3 * found.samples
    assert abs(found.values["stiffness"] - 5.0) < 3.0 * found.deviations["stiffness"]


CLEAN = link_only(measured("qbmove", PAPER, 0.01, (0.05, 0.2, 0.4)))
SOFT = link_only(measured("sea", {"stiffness": 3.0}, 0.01, range_fraction=0.5))
NOISE = SOFT["tau"] + np.random.default_rng(1).normal(scale=3.0, size=300)
LEVER = link_only(measured("awas2", {}, 0.05, (0.005, 0.02)))
REFUSED = [
    ("sea", without(CLEAN, "tau"), {}, "torques: .*tau, tau_1, tau_2.* q, "),
    ("qbmove", without(CLEAN, "theta_2"), {}, r"positions: .*q, theta_1, tau\. .*q, theta_1 "),
    ("qbmove", without(CLEAN, "q"), {}, r"positions: .*theta_1, theta_2, tau\. .*q, "),
    ("qbmove", CLEAN | {"q": CLEAN["q"][:9]}, {}, r".*\b300 of tau, 9 of q\b"),
    ("qbmove", CLEAN | {"tau": np.r_[np.nan, CLEAN["tau"][1:]]}, {}, r"tau: .*\bnan\b.* 1\b"),
    ("qbmove", CLEAN | {"q": ["x"] * 300}, {}, "q: "),
    ("qbmove", CLEAN | {"q": np.zeros((3, 100))}, {}, r"q: .*\(3, 100\)"),
    ("qbmove", {n: v[:10] for n, v in CLEAN.items()}, {}, r".*\b10\b.*\b12\b"),
    ("qbmove", CLEAN | {"tau": -CLEAN["tau"]}, {}, "tau: "),
    ("qbmove", CLEAN | {n: np.degrees(CLEAN[n]) for n in ("q", "theta_1", "theta_2")}, {},
     r".*\b\d+ .*max_.* 0\.8 rad\b"),
    ("awas2", LEVER | {"theta_2": 1e3 * LEVER["theta_2"]}, {}, r"preset: .*\b0\b.*\b0"),
    ("qbmove", SOFT | {"theta_2": SOFT["theta_1"] - 0.2}, {}, r".*\bk_1\b"
     r".*\bk_2\b.* %\)"),
    ("bavs", link_only(measured("bavs", {}, 0.01, (0.05, 0.2))), {"names": ["a", "b", "k"]},
     r".*\ba\b.*\bb\b.*\bk\b"),
    ("awas2", LEVER, {"names": ["spring_stiffness", "radius"]},
     r".*\bspring_stiffness\b.*\bradius\b"),
    ("awas2", LEVER, {"names": ["damping"]}, r".*\bdamping\b"),
    ("awas2", LEVER, {"names": ["spring_stiffness"], "fixed": {"spring_stiffness": 10.0}},
     "spring_stiffness: "),
    ("sea", SOFT, {"fixed": {"stiffness": 10.0}}, "parameters: "),
    ("sea", SOFT | {"tau": NOISE}, {}, r".*\bsea\b.*\b\d+ %"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "columns", "options", "reason"), REFUSED)
def test_insufficient_data_are_rejected_with_reason(kind, columns, options, reason):
    with pytest.raises(IdentificationRejected, match=f"data: {reason}"):
        identify_springs(kind, columns, **options)


def test_unknown_or_invalid_parameters_are_rejected():
    with pytest.raises(ActuatorRejected, match=r"^sea: .*'k'.*max_"):
        identify_springs("sea", SOFT, names=["k"])
    with pytest.raises(ActuatorRejected, match=r"^sea: stiffness: .*-1\.0\b"):
        identify_springs("sea", SOFT, fixed={"stiffness": -1.0})
    with pytest.raises(ConfigurationError, match=r"'seas'.*awas2"):
        identify_springs("seas", SOFT)


def write(path, *joints):
    """Write a table of one joint, or of several joints with a column ``joint``."""
    columns = {n: np.concatenate([joint[n] for joint in joints]) for n in joints[0]}
    if len(joints) > 1:
        columns["joint"] = np.repeat(
            np.arange(1.0, len(joints) + 1), [len(j["q"]) for j in joints]
        )
    if path.suffix == ".parquet":
        pandas = pytest.importorskip("pandas")
        pandas.DataFrame(columns).to_parquet(path)
    else:
        table = np.column_stack(list(columns.values()))
        np.savetxt(path, table, delimiter=", ", header=", ".join(columns), comments="")


def test_identify_command_writes_file_that_actuator_reads(tmp_path, capsys):
    table, output, plot = (tmp_path / name for name in ("a.csv", "springs.yaml", "springs.png"))
    write(table, CLEAN, link_only(measured("qbmove", SECOND, 0.01, (0.05, 0.2, 0.4))))
    line = f"actuators identify {table} --type qbmove -o {output} --plot {plot} --offset"
    assert main(line.split()) == 0
    out = capsys.readouterr().out
    assert f"{table}: joint 2: 300 samples" in out
    assert "a_1" in out
    assert plot.stat().st_size > 10_000
    springs = actuator_from(output, 2)
    for name in PAPER:
        assert springs.of[name] == pytest.approx([PAPER[name], SECOND[name]], rel=0.15)
    reported = yaml.safe_load(output.read_text())["identified"]
    assert reported["samples"] == [300, 300]
    assert 0.0 < reported["standard_deviations"]["a_1"][0] < 0.1
    assert abs(reported["torque_offset_Nm"][1]) < 0.01
    with pytest.raises(ConfigurationError, match=r"params: .*\b2\b.*\b3\b"):
        actuator_from(output, 3)


def test_springs_of_one_joint_apply_to_all_joints(tmp_path, capsys):
    table, output = tmp_path / "a.parquet", tmp_path / "springs.yaml"
    write(table, SOFT)
    fixed = "--fix max_deflection=1.2"
    assert main(f"actuators identify {table} --type sea -o {output} {fixed}".split()) == 0
    assert read_actuator(output)[0] == "sea"
    springs = actuator_from(output, 3)
    assert springs.of["stiffness"] == pytest.approx([3.0] * 3, rel=0.01)
    assert springs.of["max_deflection"].tolist() == [1.2] * 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nothing.csv --type sea", "nothing.csv: cannot be read as a table"),
        ("{table}.txt --type sea", "not a table. Use a .csv or .parquet file"),
        ("{table} --type seas", "actuator 'seas' does not exist; known: awas2, bavs, qbmove, sea"),
        ("{table} --type sea -o {table}/x.yaml", "--output: "),
        ("{table} --type sea --plot x.txt", "--plot: x.txt must be a file .png"),
        ("{table} --type sea --fit k", "sea: parameter 'k' does not exist"),
        ("{empty} --type sea", "has no rows. Provide one row for each sample"),
        ("{table} --type qbmove -o {output}", "{table}: no spring parameters of a qbmove fit"),
    ],
)
def test_failed_identify_command_prints_one_line_and_writes_nothing(
    tmp_path, capsys, line, reason
):
    names = {n: tmp_path / f for n, f in (("table", "a.csv"), ("empty", "b.csv"),
                                          ("output", "c.yaml"))}  # fmt: skip
    write(names["table"], SOFT | {"theta_2": SOFT["theta_1"]})
    names["empty"].write_text("q, theta_1, tau\n")
    assert main(["actuators", "identify", *line.format(**names).split()]) == 1
    reported = capsys.readouterr()
    assert reported.err.startswith("multipanda actuators: ")
    assert reason.format(**names) in reported.err
    assert reported.err.count("\n") == 1
    assert not names["output"].exists()


@pytest.mark.parametrize("line", ["", "identify a.csv", "identify a.csv --type sea --fix k"])
def test_wrong_usage_exits_with_code_2(line, capsys):
    with pytest.raises(SystemExit) as end:
        main(["actuators", *line.split()])
    assert end.value.code == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("type: sea\nparams: {stiffness: -1.0}\n", r"params: sea: stiffness: .*-1\.0\b"),
        ("type: seas\n", "type: .*'seas'"),
        ("params: {}\n", r"type: .*\bNone\b"),
        ("type: sea\nparams: 3\n", r"params: .*\b3\b"),
        ("type: sea\nsprings: 3\n", "springs: .*type, params, identified"),
    ],
)
def test_invalid_spring_file_is_rejected(tmp_path, text, reason):
    path = tmp_path / "springs.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=f"springs.yaml: {reason}"):
        actuator_from(path, 1)
