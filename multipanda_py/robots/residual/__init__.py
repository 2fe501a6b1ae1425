# SPDX-License-Identifier: Apache-2.0
"""Learned residual between a robot and its simulated twin."""
