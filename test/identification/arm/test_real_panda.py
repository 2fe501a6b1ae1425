# SPDX-License-Identifier: Apache-2.0
"""Identification of a real Panda from a public recording, against published parameters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from recordings import PANDA, needs_panda

from multipanda_py.apps.commands.identify import motion_of
from multipanda_py.identification.arm.estimators import FrictionShape
from multipanda_py.identification.arm.identify import Options, identify
from multipanda_py.identification.arm.regressor import ArmRegressor
from multipanda_py.identification.arm.stack import stack, thinned
from multipanda_py.realtime import recording as logs
from multipanda_py.robots import MODELS, ArmDescription
from multipanda_py.robots.inertial import Inertial

pytest.importorskip("rosbags")
pytestmark = [pytest.mark.inline, needs_panda]

# Gaz, Cognetti, Oliva, Robuffo Giordano and De Luca, IEEE RA-L 2019, tables VIII and IX of the
# supplement: mass, centre of mass, xx yy zz xy xz yz about it, of links 1 to 7.
# fmt: off
PUBLISHED = (
    Inertial(4.970684, (0.003875, 0.002081, -0.175),
             (0.70337, 0.70661, 0.009117, -0.000139, 0.006772, 0.019169)),
    Inertial(0.646926, (-0.003141, -0.02872, 0.003495),
             (0.007962, 0.02811, 0.025995, -0.003925, 0.010254, 0.000704)),
    Inertial(3.228604, (0.027518, 0.039252, -0.066502),
             (0.037242, 0.036155, 0.01083, -0.004761, -0.011396, -0.012805)),
    Inertial(3.587895, (-0.05317, 0.104419, 0.027454),
             (0.025853, 0.019552, 0.028323, 0.007796, -0.001332, 0.008641)),
    Inertial(1.225946, (-0.011953, 0.041065, -0.038437),
             (0.035549, 0.029474, 0.008627, -0.002117, -0.004037, 0.000229)),
    Inertial(1.666555, (0.060149, -0.014117, -0.010517),
             (0.001964, 0.004354, 0.005433, 0.000109, -0.001158, 0.000341)),
    Inertial(0.735522, (0.010517, -0.004252, 0.061597),
             (0.012516, 0.010027, 0.004815, -0.000428, -0.001196, -0.000741)),
)
# fmt: on
WHOLE = (0.61, 0.42, 0.48, 0.69, 0.19, 0.22, 0.08)
"""Errors of the published parameters over the whole recording, by another program [Nm]."""
FER = MODELS["fer"]


@pytest.fixture(scope="module")
def motion():
    return motion_of(logs.read(PANDA).the_arm(), "Panda")


def errors_of_published(motion):
    """Return the RMSE of the torques with published bodies and friction, (n,) [Nm]."""
    links = [replace(link, inertial=own) for link, own in zip(FER.links[1:], PUBLISHED)]
    robot = replace(FER, links=(FER.links[0], *links))
    regressor, cutoff = ArmRegressor(ArmDescription("arm", robot, hand=False)), Options().cutoff
    part = stack(regressor, [motion], FrictionShape.sharp(7), cutoff)
    p1, p2, p3 = (np.array(FER.figures[f"friction_phi_{k}"]) for k in (1, 2, 3))
    friction = [
        thinned(
            p1 / (1 + np.exp(-p2 * (run.dq + p3))) - p1 / (1 + np.exp(-p2 * p3)), cutoff, run.rate
        )
        for run in part.parts
    ]
    residuals = part.tau - part.rows[..., :70] @ regressor.prior - np.concatenate(friction)
    return np.sqrt((residuals**2).mean(axis=0))


def test_errors_of_published_parameters_are_reproduced(motion):
    np.testing.assert_allclose(errors_of_published(motion), WHOLE, rtol=0.2)


@pytest.mark.long
@pytest.mark.parametrize("friction", ["coulomb", "sigmoid"])
def test_held_out_error_is_below_published_parameters(motion, friction):
    options = Options(friction=friction)
    found = identify([motion], ArmDescription("arm", "fer", hand=False), options)
    _, unseen = motion.split(options.held_out)
    assert (found.held_out["consistent"] < 0.95 * errors_of_published(unseen)).all()
