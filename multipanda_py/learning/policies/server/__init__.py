# SPDX-License-Identifier: Apache-2.0
"""What runs in other environments than this package's, by path: see :mod:`.serving`."""
