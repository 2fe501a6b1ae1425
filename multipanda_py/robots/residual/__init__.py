# SPDX-License-Identifier: Apache-2.0
"""What is left between a twin and its plant, as numbers that can be learned."""
