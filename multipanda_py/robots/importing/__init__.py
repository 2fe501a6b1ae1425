# SPDX-License-Identifier: Apache-2.0
"""Import of an arm from its URDF or MJCF."""
