# SPDX-License-Identifier: Apache-2.0
"""Write doc/robustness.md and its figure from map.json."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cases import CONDITIONS, CONTACT, ELASTIC, EVERY_LAW, HERE, LAWS, OFF, PEER, Law, applies
from map import RESULT, ROOT
from verdict import AT_LIMIT, AT_REST, FAULTS, LIMITS, ORDER, STABLE, UNSTABLE
from why import GEARS, reason

PAGE = ROOT / "doc" / "robustness.md"
FIGURE = ROOT / "doc" / "images" / "robustness.png"
SIGN = {STABLE: "·", LIMITS: "L", FAULTS: "F", UNSTABLE: "U"}
COLOUR = {"": "#ffffff", STABLE: "#cfe8d5", LIMITS: "#f6d98a", FAULTS: "#e8956b",
          UNSTABLE: "#a8324a"}  # fmt: skip

Found = dict[str, dict[str, Any]]

TEXT = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- Written by benchmarks/robustness/page.py (`make robustness`): edit that, not this file. -->
# Robustness of the controllets

Find out which delay, model error, noise, load and contact each controllet tolerates with its
default gains. Use the map to choose a controllet, or make it again after you changed one. All
results are simulated.

```
.venv/bin/python benchmarks/robustness/map.py --quick    # one minute, writes no file
make robustness                                          # this page and long tests: hours
```

![Map of controllets and conditions](images/robustness.png)

Each field of the map is one controllet under one condition. The table counts the fields of three
groups.

{summary}

The sign of a field is the verdict.

| sign | verdict | behaviour of the arm |
|---|---|---|
| · | stable | comes to rest |
| L | limits | rests, with a torque or its rate at a limit more than {share:.0%} of the time |
| F | faults | exceeds a limit of speed or position, holds, and rests |
| U | unstable | still moves at more than {rest:g} rad/s, maybe after a fault under *hold* |

- A blank field does not apply to the controllet.
- A contact with an oscillating force counts as unstable. A contact that is never made counts as
  limits.
- *hold* is the built-in controllet that keeps an arm in place after a fault.

**To choose a controllet,** find the conditions of your robot and task in the table of
[conditions](#conditions), for example its latency, load and surface. Take the controllets that are
stable (·) in all of these columns of your arm's [map](#map). If several are left and the arm
touches objects, compare their [contact forces](#contact-forces).

## Row of your controllet
Add a line to `LAWS` in `benchmarks/robustness/cases.py`: name of the row, type in the cell file,
kind of target, and kind of contact. The docstring of `Law` has all kinds. This line is for the
controllet of [writing a controllet](writing_a_controllet.md).

```
    Law("rail", "rail", "pose", "pose"),
```

Then simulate the rows with this name, print the fields that are not stable, and write this page.
The other rows stay as they are.

```
.venv/bin/python benchmarks/robustness/map.py --only rail    # other arms: also --robot ur5e
.venv/bin/python benchmarks/robustness/page.py
```

## Conditions
"""

METHOD = """\
## Method
All runs are inline (without a clock) and repeatable.

- **Free space.** The arm gets a push of up to {push:g} rad/s in every joint, a slow motion, and a
  step of the target by {step:.0%} of the gate. After each of them it has to come to rest. Slow
  oscillations get {more:g} s more.
- **Contact.** The tool starts {gap:g} mm above a spring with a twentieth of critical damping. Its
  target is a pose {deep:g} mm below the surface, or a force of {press:g} N.
- **Configurations.** Each field uses {seeds} configurations. The first is a default one; any other
  is at a random distance from it (up to 0.5 rad per joint, in contact 0.2 rad). The worst counts.
- **Friction.** Joints have none, as friction would hide small limit cycles.
- **Noise.** Standard deviations are {noise}.
- **Gears of other arms.** Their stiffness is not published. The map assumes that of an FR3, or
  {gears:g} Nm/rad per Nm of the torque limit if that is larger.
- **Load of a Gen3.** A Gen3 carries {gen3:g} kg where other arms carry {heavy:g} kg (condition
  18). In its default configuration the sixth joint has the torque for 2.2 kg.
- **Gravity of a Gen3.** Other arms compensate their weight themselves. For a Gen3 the loop does
  it, with the model. With inertia x 0.8 or x 1.2 this weight therefore has the same error.
- **Leader.** The leader of *teleoperation* has no load and no bias, and as a Gen3 no error of the
  inertia: they would move it, as it is led by hand.
- **Verdicts.** They use simulated speeds, not measured ones.

**Textbook laws.** `benchmarks/robustness/peers.py` has these laws, written from their equations,
with the published gains of other stacks. They run in the same loop, limits and simulation.

- They omit filters of states, and limits of the torque rate below the robot's. This favours the
  stacks that have them.
- Their targets are not governed: the law gets the whole step at once, as in those stacks.
- After a fault this package's *hold* takes over.
- The map describes these equations and gains in this simulation. It is not a measurement of other
  software on a robot.

"""


def worst(found: Found, law: str, condition: str) -> dict[str, Any] | None:
    """Return the result of the worst episode of a field, or None if it has no episodes."""
    results = [value for name, value in found.items() if name.startswith(f"{law} | {condition} |")]
    return max(results, key=lambda r: (ORDER.index(r["verdict"]), r["speed"]), default=None)


def tried(found: Found) -> tuple[Law, ...]:
    """Return the rows of other arms that the map has."""
    names = {name.split(" | ")[0] for name in found}
    return tuple(law for law in EVERY_LAW[len(LAWS) :] if law.name in names)


def letters(found: Found, laws: tuple[Law, ...] = LAWS) -> list[str]:
    """Return the map as text, with a line per row and a sign per condition."""
    width = max((len(law.name) for law in laws), default=0)
    numbers = [f"{n:2d}" for n in range(1, len(CONDITIONS) + 1)]
    lines = ["```", " " * width + "  " + " ".join(numbers)]
    group = HERE
    for law in laws:
        if law.group != group:
            group = law.group
            lines.append(f"--- {group}")
        signs = []
        for condition in CONDITIONS:
            result = worst(found, law.name, condition.name)
            signs.append(" " + (SIGN[result["verdict"]] if result else " "))
        lines.append(f"{law.name:{width}}  {' '.join(signs)}".rstrip())
    return [*lines, "```"]


def conditions() -> list[str]:
    """Return a table of the numbered conditions, and a list of their terms."""
    names = [f"{n}: {c.name}" for n, c in enumerate(CONDITIONS, 1)]
    rows = -(-len(names) // 3)
    return [
        "| conditions | | |",
        "|---|---|---|",
        *(f"| {' | '.join(names[row::rows])} |" for row in range(rows)),
        "",
        "- *Delay* is that of states, *lag* that of executed torques.",
        '- "2 + 2 ms" is a delay of 2 ms and a lag of 2 ms.',
        '- "x 0.8" is the ratio of the inertia to that of the model.',
        "- *Bias* is a constant error of the executed torque of each joint, here 0.5 Nm.",
        f"- *Drift* is a random walk of the sensors, {OFF['tau_drift'][0]:g} Nm in one second.",
        "- *Ripple* is a torque of the gears that varies with the motor angle, "
        f"{ELASTIC['ripple'][0]:g} Nm.",
        "- *Gate* is the largest step of a target that the loop accepts.",
        "- Steps (20, 21) do not apply to controllets without a target within the gate.",
        "- Surfaces (22 to 27) do not apply to controllets that have no target to press with.",
    ]


def not_stable(found: Found) -> list[str]:
    """Return a table of the fields that are not stable, with event and cause."""
    lines = ["| controllet | condition | verdict | event | cause |", "|---|---|---|---|---|"]
    for law in (*LAWS, *tried(found)):
        for condition in CONDITIONS:
            result = worst(found, law.name, condition.name)
            if result and result["verdict"] != STABLE:
                fields = (result["verdict"], result["reason"], reason(law, condition))
                lines.append(f"| {law.name} | {condition.name} | {' | '.join(fields)} |")
    return lines


def contacts(found: Found) -> list[str]:
    """Return a table of the final and maximum contact forces on each surface."""
    names = list(dict.fromkeys(c.name.split(",")[0] for c in CONTACT))
    lines = ["| controllet | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for law in (*LAWS, *tried(found)):
        if not law.presses_by:
            continue
        fields = []
        for name in names:
            start = f"{law.name} | {name}"
            results = [
                v for key, v in found.items() if key.startswith((f"{start} |", f"{start},"))
            ]
            peak = max((r["peak"] for r in results), default=0.0)
            mean = max((r["force"] for r in results), default=0.0)
            fields.append(f"{mean:.3g} / {peak:.3g}")
        lines.append(f"| {law.name} | {' | '.join(fields)} |")
    return lines


def summary(found: Found) -> str:
    """Return a table of the number of fields per group, and of those that are not stable."""
    parts = []
    for laws, label in (
        ([law for law in LAWS if law.group == HERE], "controllets of this package on FR3 arms"),
        (tried(found), "the same on other arms"),
        ([law for law in LAWS if law.group == PEER], "textbook laws with gains of other stacks"),
    ):
        fields = [worst(found, law.name, c.name) for law in laws for c in CONDITIONS]
        verdicts = [field["verdict"] for field in fields if field]
        failed = sum(verdict != STABLE for verdict in verdicts)
        parts.append(f"| {label} | {len(verdicts)} | {failed} |")
    return "\n".join(["| controllets | fields | not stable |", "|---|---|---|", *parts])


def page(found: Found) -> str:
    """Return the text of the page."""
    import scenarios
    from cases import HEAVY, NOISE, REDUCED_PAYLOAD, STIFFNESS_PER_TORQUE, USUAL_STEP

    seeds = 1 + max(int(name.rsplit("|", 1)[1]) for name in found)
    noise = f"{NOISE['q']:g} rad, {NOISE['dq']:g} rad/s, {NOISE['tau']:g} Nm"
    fields: dict[str, Any] = {
        "push": scenarios.PUSH, "more": 1e-3 * scenarios.MAX_EXTENSIONS * scenarios.EXTRA_CYCLES,
        "step": USUAL_STEP, "gap": 1e3 * scenarios.GAP, "deep": 1e3 * scenarios.DEEP,
        "press": scenarios.PRESS, "seeds": seeds, "noise": noise, "share": AT_LIMIT,
        "rest": AT_REST, "gears": STIFFNESS_PER_TORQUE, "heavy": HEAVY,
        "gen3": REDUCED_PAYLOAD["kinova_gen3"], "summary": summary(found),
    }  # fmt: skip
    head, method = TEXT.format(**fields), METHOD.format(**fields)
    others = tried(found)
    rest = ", ".join(law.name for law in EVERY_LAW[len(LAWS) :] if law not in others)
    intro = "Each arm has its default gains. The numbers are the conditions of the table above."
    intro += f" Not simulated yet: {rest}." if rest else ""
    more = ["## Other arms", intro, "", *letters(found, others), ""]
    parts = [
        head.rstrip("\n"), "", *conditions(), "", "## Map", "", *letters(found), "",
        *(more if others else ()), "## Fields that are not stable",
        "*Event* is what happened in the run, for example after the push or the step.", "",
        *not_stable(found), "", GEARS, "## Contact forces",
        "Each field has two forces on the surface [N]: at the end of the run / maximum. Both are",
        "the largest of all configurations, without latency and with 2 + 2 ms.", "",
        f"- Most controllets get a pose {fields['deep']:g} mm below the surface as their target,",
        "  or joint positions for it. The force at the end then depends on the stiffness: the",
        "  soft joint springs of *franka_ros2* press with less than 1 N.",
        f"- *force_impedance* and *optimization_augmented* get a target of {fields['press']:g} N,",
        "  and end at it.",
        f"- The coupled controllets get an internal force of {fields['press']:g} N.",
        "  *coupled_force_impedance* ends at it. *coupled_impedance* has springs instead of force",
        "  control, and ends at less.",
        f"- In *teleoperation* a hand pulls the leader with {fields['press']:g} N. The follower",
        "  presses until the feedback, half of its force above 2 N, balances the hand: at 22 N.",
        "", *contacts(found), "", method,
    ]  # fmt: skip
    return "\n".join(parts).rstrip("\n") + "\n"


def draw(found: Found, path: Path) -> None:
    """Draw the map of the FR3 rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.patches import Patch, Rectangle

    fig, ax = plt.subplots(figsize=(11.5, 7.6))
    gap = {law.name: 0.4 if law.group == PEER else 0.0 for law in LAWS}
    contact_from = len(CONDITIONS) - len(CONTACT)
    for row, law in enumerate(LAWS):
        for column, condition in enumerate(CONDITIONS):
            result = worst(found, law.name, condition.name)
            verdict = result["verdict"] if result and applies(law, condition) else ""
            x, y = column + (0.4 if column >= contact_from else 0.0), row + gap[law.name]
            ax.add_patch(Rectangle((x, y), 0.94, 0.9, color=COLOUR[verdict], lw=0))
            if verdict not in ("", STABLE):
                ink = "white" if verdict == UNSTABLE else "black"
                ax.text(x + 0.47, y + 0.45, SIGN[verdict], ha="center", va="center", color=ink,
                        fontsize=8)  # fmt: skip
    ax.set_xlim(0, len(CONDITIONS) + 0.4)
    ax.set_ylim(len(LAWS) + 0.4, 0)
    ax.set_yticks([i + 0.45 + gap[law.name] for i, law in enumerate(LAWS)])
    ax.set_yticklabels([law.name for law in LAWS], fontsize=8.5)
    ax.set_xticks([i + 0.47 + (0.4 if i >= contact_from else 0) for i in range(len(CONDITIONS))])
    ax.set_xticklabels(
        [f"{n} {c.name}" for n, c in enumerate(CONDITIONS, 1)],
        rotation=50,
        ha="left",
        fontsize=8.5,
    )
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    handles = [Patch(color=COLOUR[v], label=f"{SIGN[v]} {v}") for v in ORDER]
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.01), ncol=4,
              frameon=False, fontsize=9)  # fmt: skip
    fig.savefig(path, dpi=100, bbox_inches="tight", metadata={"Software": ""})
    plt.close(fig)


def main() -> int:
    """Write page and figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, default=RESULT, help="result file of map.py")
    parser.add_argument("--out", type=Path, default=PAGE, help="page to write")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="figure to write")
    options = parser.parse_args()
    if not options.json.is_file():
        parser.error(f"{options.json}: no such file. Run map.py to write it.")
    found: Found = json.loads(options.json.read_text(encoding="utf-8"))
    options.out.write_text(page(found), encoding="utf-8")
    draw(found, options.figure)
    sys.stderr.write(f"{options.out}\n{options.figure}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
