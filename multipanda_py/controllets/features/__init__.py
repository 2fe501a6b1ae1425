# SPDX-License-Identifier: Apache-2.0
"""Built-in features, one per file: ``nullspace`` selects ``Nullspace`` in ``nullspace.py``."""
