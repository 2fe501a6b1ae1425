# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation of learned residuals, the state differences of a plant and its twin."""
