# SPDX-License-Identifier: Apache-2.0
"""Motions of arms: to places, touching nothing; through postures and poses; on circles."""
