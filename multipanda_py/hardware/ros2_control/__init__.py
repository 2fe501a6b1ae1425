# SPDX-License-Identifier: Apache-2.0
"""Arms that a foreign controller manager drives: states and efforts as topics."""
