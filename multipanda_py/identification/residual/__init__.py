# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation of residuals: learned state differences between a plant and its twin."""
