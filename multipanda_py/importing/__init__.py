# SPDX-License-Identifier: Apache-2.0
"""From the URDF of an arm to a robot of this package: what can be found out of the file."""
