# SPDX-License-Identifier: Apache-2.0
"""Built-in features, one file each, found by name: ``nullspace`` is ``Nullspace``."""
