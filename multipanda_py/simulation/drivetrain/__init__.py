# SPDX-License-Identifier: Apache-2.0
"""Drivetrains of simulated arms: elastic joints, friction, sensors and model errors."""
