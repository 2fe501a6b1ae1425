# SPDX-License-Identifier: Apache-2.0
"""Time parametrisation of paths and motions in joint space."""
