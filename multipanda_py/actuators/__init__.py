# SPDX-License-Identifier: Apache-2.0
"""Compliant actuators, one for each file; :mod:`multipanda_py.actuator` says what they share."""
