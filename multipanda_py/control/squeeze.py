# SPDX-License-Identifier: Apache-2.0
"""How hard hands press what they hold, and how hard they may."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from multipanda_py.context import Context
from multipanda_py.control.bearable_share import SURE, BearableShare
from multipanda_py.control.held_object import HeldObject
from multipanda_py.control.modal_damping import ModalDamping
from multipanda_py.state import ArmState, Vector


class SqueezeMeasurement:
    r"""Find how hard the hands press the object, from their estimated wrenches.

    .. math:: F_s = -\frac{n^T F_{ext}}{n^T n}

    with n from the hands to the object's origin. What the hands do to carry it has no part in
    it: that is orthogonal to n.

    Args:
        held: The object.

    Thread: control.
    """

    def __init__(self, held: HeldObject) -> None:
        self._bases, self._sharing = held.bases, held.sharing

    def take(self, states: Sequence[ArmState]) -> float:
        """Return the squeeze [N] of the measured states."""
        total, sharing = 0.0, self._sharing
        for base, state, (x, y, z) in zip(self._bases, states, sharing.presses):
            fx, fy, fz, _, _, _ = base.six_to_world(state.wrench_ext_in_base).tolist()
            total -= fx * x + fy * y + fz * z
        return total / sharing.size


class BearableSqueeze:
    """Find how much of a squeeze the joints of all hands can press with.

    Shared by all, so that what is held is still pressed from all sides alike.

    Args:
        held: The object.
        context: Of the law.

    Thread: control.
    """

    def __init__(self, held: HeldObject, context: Context) -> None:
        shares = [BearableShare(arm) for arm in context.arms]
        self._hands = list(zip(held.bases, held.inward, shares))
        self._wrench = np.zeros(6)

    def of(self, squeeze: float, states: Sequence[ArmState]) -> float:
        """Return what of a squeeze the joints bear in this posture [N]."""
        return squeeze if squeeze < SURE else squeeze * self._least(squeeze, states)[0]

    def overload(self, squeeze: float, states: Sequence[ArmState]) -> str:
        """Say what is left of a squeeze [N] that joints do not bear; return nothing where all."""
        share, name = self._least(squeeze, states)
        if share == 1.0:
            return ""
        return (
            f"{name}: joints bear {share * squeeze:.1f} of {squeeze:.1f} N of squeeze in this "
            "posture, with which all hands press now"
        )

    def _least(self, squeeze: float, states: Sequence[ArmState]) -> tuple[float, str]:
        least, name, wrench = 1.0, "", self._wrench
        for (base, inward, bearable), state in zip(self._hands, states):
            np.multiply(inward, squeeze, wrench[:3])
            share = bearable.of(base.six_to_base(wrench), state)
            if share < least:
                least, name = share, state.name
        return least, name


def buckling(
    squeeze: float, dampers: Sequence[ModalDamping], stiffness: Vector, held: HeldObject
) -> str:
    r"""Say so where the springs across are too soft for a squeeze; return nothing where not.

    Two hands a width L apart that press with F lose what they hold sideways unless each is
    held by more than :math:`k = 2 F / L`: a turn of the thing by :math:`\theta` moves either
    hand by :math:`\theta L / 2`, and turns the force by F :math:`\theta`.

    Args:
        squeeze: Force that is asked for [N].
        dampers: Of the hands, which know what is left of their stiffness.
        stiffness: Of the hands, (6,) [N/m, Nm/rad].
        held: The object.
    """
    across = softest_across(dampers, stiffness, held)
    width = 2.0 * float(np.linalg.norm(held.levers, axis=1).mean())
    if not 2.0 * squeeze > across * width:
        return ""
    return (
        f"a squeeze of {squeeze:.1f} N on {width:.2f} m needs {2.0 * squeeze / width:.0f} "
        f"N/m of relative_stiffness across it, and has {across:.0f}: what is held may "
        f"buckle out of the hands; squeeze by less than {0.5 * across * width:.1f} N or "
        "raise relative_stiffness"
    )


def softest_across(dampers: Sequence[ModalDamping], stiffness: Vector, held: HeldObject) -> float:
    """Return the least stiffness of a hand across the way it presses [N/m]."""
    least = math.inf
    for damper, inward in zip(dampers, held.inward):
        kept = np.diag(stiffness[:3]) if damper.kept == 1.0 else damper.stiffness[:3, :3]
        size = float(np.linalg.norm(inward))
        if size > 0.0:
            plane = np.linalg.svd(inward[None] / size)[2][1:]
            least = min(least, float(np.linalg.eigvalsh(plane @ kept @ plane.T)[0]))
    return least
