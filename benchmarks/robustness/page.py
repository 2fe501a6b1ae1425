# SPDX-License-Identifier: Apache-2.0
"""Write doc/robustness.md and its figure from the map that map.py has made."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from cases import CONDITIONS, CONTACT, EVERY_LAW, HERE, LAWS, PEER, Law, applies
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
# What the laws stand

Every law with its default gains, on simulated FR3 arms that differ from what it believes: late,
lagging, lighter or heavier, noisy, biased, with a load that nobody told it about, against surfaces
from soft to hard. Beside them the textbook laws of other stacks with the gains that those ship, in
the same loop, clamp and simulation.

![Map of laws and conditions](images/robustness.png)

## How it is tried
- Free space: a push (up to {push:g} rad/s in every joint, in an instant), a slow motion, and a
  step of the target of {step:.0%} of the gate; after each the arm has to come to rest, and what
  swings slowly is given {more:g} s more. *Steps of 0.9 gates* are conditions of their own.
- Contact: the tool starts {gap:g} mm above a spring with a twentieth of critical damping, and is
  asked for a pose {deep:g} mm behind it or for {press:g} N.
- Postures: {seeds} per field, the usual one and random ones around it; the worst counts. Arms have
  no joint friction: that would hide small limit cycles. Noise is {noise}.
- Other arms meet the same conditions, but for two. How stiff their gears are is not published:
  we assume those of an FR3 or, where that is more, {gears:g} Nm/rad per Nm of the torque limit,
  as its strong joints have; with an FR3's gears an iiwa would swing at 25 Hz. And the load of
  {heavy:g} kg is {gen3:g} kg on a Gen3, whose sixth joint has the torque for 2.2 kg in its usual
  posture. A Gen3 feels gravity, as it does not carry itself: with inertia x 0.8 its weight is
  wrong by as much (not a leader's: it would sink).
- Speeds are those of the simulation, not those measured. Everything runs inline and is the same
  in every run.

| sign | verdict | what the arm does |
|---|---|---|
| · | stable | comes to rest by itself |
| L | limits | rests with a torque or its rate at a limit more than {share:.0%} of the time |
| F | faults | passes a bound of speed or position, holds, and rests |
| U | unstable | moves on at more than {rest:g} rad/s, maybe after a fault under *hold* |

A contact whose force swings is unstable, too, and one that is never made is at its limits. Blank
is what cannot be asked of a law.

The textbook laws are written from their equations in `benchmarks/robustness/peers.py`. Filters of
states, and limits of the torque rate below the robot's, are left out, which is kind to the stacks
that have them; their targets are not governed, since those stacks hand them over as they come. A
fault ends in this package's *hold*. This says what these equations and gains do in this
simulation; it is not a measurement of anybody's software on a robot.

## Map
"""


def worst(found: Found, law: str, condition: str) -> dict[str, Any] | None:
    """Return the worst of the episodes of a field, or None if there are none."""
    results = [value for name, value in found.items() if name.startswith(f"{law} | {condition} |")]
    return max(results, key=lambda r: (ORDER.index(r["verdict"]), r["speed"]), default=None)


def tried(found: Found) -> tuple[Law, ...]:
    """Return the laws on other arms that the map has."""
    names = {name.split(" | ")[0] for name in found}
    return tuple(law for law in EVERY_LAW[len(LAWS) :] if law.name in names)


def letters(found: Found, laws: tuple[Law, ...] = LAWS) -> list[str]:
    """Return the map as text: one line per law, one sign per condition."""
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
    """Return the numbered conditions, in one paragraph."""
    return ["; ".join(f"{n} {c.name}" for n, c in enumerate(CONDITIONS, 1)) + "."]


def not_stable(found: Found) -> list[str]:
    """Return a table of every field that is not stable, what happened there, and why."""
    lines = ["| law | condition | verdict | what happened | why |", "|---|---|---|---|---|"]
    for law in (*LAWS, *tried(found)):
        for condition in CONDITIONS:
            result = worst(found, law.name, condition.name)
            if result and result["verdict"] != STABLE:
                fields = (result["verdict"], result["reason"], reason(law, condition))
                lines.append(f"| {law.name} | {condition.name} | {' | '.join(fields)} |")
    return lines


def contacts(found: Found) -> list[str]:
    """Return a table of the forces on each surface: at the end, and at most."""
    names = [c.name for c in CONTACT]
    lines = ["| law | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for law in (*LAWS, *tried(found)):
        if not law.presses_by:
            continue
        fields = []
        for name in names:
            results = [v for key, v in found.items() if key.startswith(f"{law.name} | {name} |")]
            peak = max((r["peak"] for r in results), default=0.0)
            mean = max((r["force"] for r in results), default=0.0)
            fields.append(f"{mean:.3g} / {peak:.3g}")
        lines.append(f"| {law.name} | {' | '.join(fields)} |")
    return lines


def page(found: Found) -> str:
    """Return the text of the page."""
    import scenarios
    from cases import BORNE, HEAVY, NOISE, STIFFNESS_PER_TORQUE, USUAL_STEP

    seeds = 1 + max(int(name.rsplit("|", 1)[1]) for name in found)
    noise = f"{NOISE['q']:g} rad, {NOISE['dq']:g} rad/s, {NOISE['tau']:g} Nm"
    head = TEXT.format(
        push=scenarios.PUSH, more=1e-3 * scenarios.TIMES * scenarios.PATIENCE,
        step=USUAL_STEP, gap=1e3 * scenarios.GAP, deep=1e3 * scenarios.DEEP,
        press=scenarios.PRESS, seeds=seeds, noise=noise, share=AT_LIMIT, rest=AT_REST,
        gears=STIFFNESS_PER_TORQUE, heavy=HEAVY, gen3=BORNE["kinova_gen3"],
    )  # fmt: skip
    others = tried(found)
    rest = ", ".join(law.name for law in EVERY_LAW[len(LAWS) :] if law not in others)
    yet = f"Their own default gains. Not tried with today's models: {rest or 'none'}."
    more = ["## Other arms", yet, "", *letters(found, others), ""]
    parts = [
        head.rstrip("\n"), "", *letters(found), "", *conditions(), "", *(more if others else ()),
        "## Not stable", "", *not_stable(found), "", GEARS,
        "## Contact", "Force on the surface at the end / at most [N], the larger of the postures.",
        "", *contacts(found), "",
    ]  # fmt: skip
    return "\n".join(parts)


def draw(found: Found, path: Path) -> None:
    """Draw the map."""
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
                light = "white" if verdict == UNSTABLE else "black"
                ax.text(x + 0.47, y + 0.45, SIGN[verdict], ha="center", va="center", color=light,
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
    """Write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, default=RESULT, help="the map")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page")
    parser.add_argument("--figure", type=Path, default=FIGURE, help="the figure")
    options = parser.parse_args()
    if not options.json.is_file():
        parser.error(f"{options.json} is not there: map.py writes it")
    found: Found = json.loads(options.json.read_text(encoding="utf-8"))
    options.out.write_text(page(found), encoding="utf-8")
    draw(found, options.figure)
    sys.stderr.write(f"{options.out}\n{options.figure}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
