# SPDX-License-Identifier: Apache-2.0
"""Networks that predict the residual: states of a robot minus those of its simulation."""
