# SPDX-License-Identifier: Apache-2.0
"""What simulated arms are made of: MJCF, and stages between torque and joint."""
