# SPDX-License-Identifier: Apache-2.0
"""Learn a residual from paired motions, and say what it gains."""
