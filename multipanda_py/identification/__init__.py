# SPDX-License-Identifier: Apache-2.0
"""The inertia and friction of an arm from what was measured on it, and motions that show them."""
