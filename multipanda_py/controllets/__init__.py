# SPDX-License-Identifier: Apache-2.0
"""Built-in controllets, one file each, found by name.

``type: joint_impedance`` is class ``JointImpedance`` in ``joint_impedance.py``.
"""
