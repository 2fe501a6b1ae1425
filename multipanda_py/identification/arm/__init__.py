# SPDX-License-Identifier: Apache-2.0
"""Identification of the inertial and friction parameters of an arm."""
