# SPDX-License-Identifier: Apache-2.0
"""Training and evaluation of learned residuals between a twin and its plant."""
