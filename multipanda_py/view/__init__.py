# SPDX-License-Identifier: Apache-2.0
"""Windows, pictures and films of a cell."""
