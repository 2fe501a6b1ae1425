# SPDX-License-Identifier: Apache-2.0
"""Identification of robot models, validation of digital twins and learning of their residuals."""
