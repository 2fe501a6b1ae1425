# SPDX-License-Identifier: Apache-2.0
"""What MoveIt 2 is told of a cell, written from its cell file."""
