# SPDX-License-Identifier: Apache-2.0
"""From the URDF or MJCF of an arm to a robot of this package."""
